// What `neuralsim view` serves, and to whom: the program runs as a child, and is spoken to in
// HTTP/1.1 through plain sockets, so that nothing tidies up what is asked.

#define _DEFAULT_SOURCE

#include "cli/waiting.h"
#include "support/assert.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 60 }; // s for anything that must happen

// ---- children ------------------------------------------------------------------------------

static pid_t children[8]; // 0: none

// Start the program with its standard output in `out`; what it says on standard error is seen.
static pid_t start(const char* const* arguments, int out) {
    int slot = 0;
    while (slot < 8 && children[slot] != 0) slot++;
    assert_in_range(slot, 0, 7);
    pid_t parent = getpid(), child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        children[slot] = child;
        return child;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); // it does not outlive the test, however that ends
    if (getppid() != parent || dup2(out, STDOUT_FILENO) < 0) _exit(99);
    execv(NEURALSIM_PROGRAM, (char**)arguments);
    _exit(98);
}

// Its exit code; it must exit by itself, in time.
static int end_of(pid_t child) {
    int status = 0;
    pid_t ended = 0;
    for (double start_time = now(); ended == 0 && now() - start_time < PATIENCE;) {
        ended = waitpid(child, &status, WNOHANG);
        if (ended == 0) wait_milliseconds(5);
    }
    assert_int_equal(ended, child);
    for (int k = 0; k < 8; k++) {
        if (children[k] == child) children[k] = 0;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// After each test, also one that failed.
static int kill_children(void** state) {
    (void)state;
    for (int k = 0; k < 8; k++) {
        if (children[k] == 0) continue;
        kill(children[k], SIGKILL);
        waitpid(children[k], NULL, 0);
        children[k] = 0;
    }
    return 0;
}

typedef struct site {
    pid_t child;
    int port;
    char token[33];
    char address[128]; // as it was printed
} site;

static site start_site_with(const char* path, const char* option) {
    const char* arguments[] = {"neuralsim", "view", path, option, NULL};
    site s = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    s.child = start(arguments, ends[1]);
    close(ends[1]);
    size_t size = 0;
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    while (!memchr(s.address, '\n', size) && size + 1 < sizeof s.address) {
        if (poll(&ready, 1, PATIENCE * 1000) != 1) fail_msg("no address in time");
        ssize_t got = read(ends[0], s.address + size, sizeof s.address - 1 - size);
        if (got <= 0) fail_msg("no address: '%s'", s.address);
        size += (size_t)got;
    }
    close(ends[0]);
    s.address[strcspn(s.address, "\n")] = '\0';
    char again[128];
    assert_int_equal(sscanf(s.address, "http://127.0.0.1:%d/%32[0-9a-f]/", &s.port, s.token), 2);
    snprintf(again, sizeof again, "http://127.0.0.1:%d/%s/", s.port, s.token);
    assert_string_equal(s.address, again);
    assert_int_equal(strlen(s.token), 32);
    return s;
}

static site start_site(const char* name) {
    return start_site_with(tempdir_path(name), "--no-browser");
}

static void end_site(const site* s, int signal_number) {
    kill(s->child, signal_number);
    assert_int_equal(end_of(s->child), 0);
}

// It may be told to end as soon as it has said where it is, while the browser is being started.
static void it_ends_cleanly_from_the_beginning(void** state) {
    (void)state;
    tempdir_write("page.html", "hello");
    setenv("BROWSER", "true", 1);
    for (int k = 0; k < 40; k++) {
        site s = start_site_with(tempdir_path("page.html"), NULL);
        end_site(&s, k % 2 == 0 ? SIGTERM : SIGINT);
    }
    unsetenv("BROWSER");
}

// ---- HTTP ----------------------------------------------------------------------------------

typedef struct response {
    int status;  // 0: the connection was closed without an answer
    char* bytes; // all of it, NUL-terminated
    const char* body;
    size_t size; // of the body
} response;

static void response_free(response* r) {
    free(r->bytes);
    *r = (response){0};
}

// Send bytes and read until the other side closes.
static response speak(int port, const char* request, size_t request_size) {
    response r = {0};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int talk = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(talk >= 0);
    struct timeval patience = {.tv_sec = PATIENCE};
    setsockopt(talk, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(talk, (struct sockaddr*)&to, sizeof to), 0);
    send(talk, request, request_size, MSG_NOSIGNAL);
    shutdown(talk, SHUT_WR);
    size_t size = 0, room = 1 << 16;
    r.bytes = malloc(room + 1);
    for (ssize_t got; r.bytes; size += (size_t)got) {
        got = recv(talk, r.bytes + size, room - size, 0);
        if (got < 0 && errno != ECONNRESET) fail_msg("no answer: %s", strerror(errno));
        if (got <= 0) break;
        if (size + (size_t)got == room) r.bytes = realloc(r.bytes, (room *= 2) + 1);
    }
    close(talk);
    assert_non_null(r.bytes);
    r.bytes[size] = '\0';
    char* end = strstr(r.bytes, "\r\n\r\n");
    if (end && sscanf(r.bytes, "HTTP/1.1 %d ", &r.status) == 1) {
        end[2] = '\0'; // the head ends with its last line
        r.body = end + 4;
        r.size = size - (size_t)(r.body - r.bytes);
    }
    return r;
}

// The value of a header, up to the end of its line; "" when there is none.
static const char* header(const response* r, const char* name) {
    static char value[512];
    size_t size = strlen(name);
    value[0] = '\0';
    for (const char* line = r->bytes; line && *line && line < r->body;) {
        if (strncasecmp(line, name, size) == 0 && line[size] == ':') {
            snprintf(value, sizeof value, "%.*s", (int)strcspn(line + size + 2, "\r"),
                     line + size + 2);
        }
        line = strstr(line, "\r\n");
        if (line) line += 2;
    }
    return value;
}

// What every answer has, whatever it is.
static void assert_guarded(const response* r) {
    static const char* const guards[][2] = {
        {"Cache-Control", "no-store"},      {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"}, {"Cross-Origin-Resource-Policy", "same-origin"},
        {"X-Frame-Options", "DENY"},        {"Connection", "close"}};
    for (size_t k = 0; k < sizeof guards / sizeof *guards; k++) {
        assert_string_equal(header(r, guards[k][0]), guards[k][1]);
    }
    assert_string_equal(header(r, "Access-Control-Allow-Origin"), "");
}

static response ask(const site* s, const char* method, const char* path, const char* host) {
    char request[8192];
    int size = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\n%s%s%s\r\n", method, path,
                        host ? "Host: " : "", host ? host : "", host ? "\r\n" : "");
    assert_in_range(size, 1, sizeof request - 1);
    response r = speak(s->port, request, (size_t)size);
    if (r.status != 0) assert_guarded(&r);
    return r;
}

static const char* our_host(const site* s) {
    static char host[32];
    snprintf(host, sizeof host, "127.0.0.1:%d", s->port);
    return host;
}

// GET of a name below the address.
static response get(const site* s, const char* name) {
    char path[8000];
    snprintf(path, sizeof path, "/%s/%s", s->token, name);
    return ask(s, "GET", path, our_host(s));
}

static void assert_status(const site* s, const char* method, const char* path, const char* host,
                          int status) {
    response r = ask(s, method, path, host);
    if (r.status != status) fail_msg("%s %s: %d, not %d", method, path, r.status, status);
    response_free(&r);
}

static void assert_shows(const site* s, const char* name, const char* type, const char* part) {
    response r = get(s, name);
    if (r.status != 200) fail_msg("'%s': %d", name, r.status);
    assert_string_equal(header(&r, "Content-Type"), type);
    assert_int_equal(strtoull(header(&r, "Content-Length"), NULL, 10), r.size);
    assert_says(r.body, part);
    response_free(&r);
}

static const char html[] = "text/html; charset=utf-8";

// ---- pages ---------------------------------------------------------------------------------

// Any bytes, more than fit into buffers on the way.
static void write_bytes(const char* path, size_t size) {
    FILE* file = fopen(path, "wb");
    assert_non_null(file);
    for (uint32_t k = 0, x = 1; k < size; k++, x = x * 1664525u + 1013904223u) {
        fputc((int)(x >> 24), file);
    }
    assert_int_equal(fclose(file), 0);
}

static void a_page_is_served_to_the_byte(void** state) {
    (void)state;
    const size_t size = 3000001;
    write_bytes(tempdir_path("page.html"), size);
    char* file = tempdir_read("page.html");
    site s = start_site("page.html");
    response r = get(&s, "");
    assert_int_equal(r.status, 200);
    assert_string_equal(header(&r, "Content-Type"), html);
    assert_int_equal(r.size, size);
    assert_memory_equal(r.body, file, size);
    response_free(&r);
    r = get(&s, "?time=3#x"); // a query changes nothing
    assert_int_equal(r.size, size);
    response_free(&r);
    free(file);

    // HEAD tells the same without it.
    char path[64];
    snprintf(path, sizeof path, "/%s/", s.token);
    r = ask(&s, "HEAD", path, our_host(&s));
    assert_int_equal(r.status, 200);
    assert_string_equal(header(&r, "Content-Length"), "3000001");
    assert_int_equal(r.size, 0);
    response_free(&r);

    // It alone is served.
    static const char* const others[] = {"page.html", "progress", "report.html", "x"};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        r = get(&s, others[k]);
        assert_int_equal(r.status, 404);
        response_free(&r);
    }

    // When it is gone, the server stays.
    assert_int_equal(unlink(tempdir_path("page.html")), 0);
    assert_status(&s, "GET", path, our_host(&s), 404);
    tempdir_write("page.html", "a new one");
    assert_shows(&s, "", html, "a new one");
    end_site(&s, SIGTERM);
}

static void only_who_knows_the_address_gets_an_answer(void** state) {
    (void)state;
    tempdir_write("page.html", "hello");
    site s = start_site("page.html");
    char path[128], host[64];
    snprintf(path, sizeof path, "/%s/", s.token);

    // Names by which this machine is known to a browser here.
    snprintf(host, sizeof host, "localhost:%d", s.port);
    assert_status(&s, "GET", path, host, 200);
    static const char* const hosts[] = {"localhost",
                                        "127.0.0.1",
                                        "example.com",
                                        "127.0.0.1:%d1",
                                        "example.com:%d",
                                        "127.0.0.1.nip.io:%d",
                                        "[::1]:%d",
                                        "127.0.0.1:%d@x.y",
                                        "0.0.0.0:%d",
                                        "x127.0.0.1:%d",
                                        ""};
    for (size_t k = 0; k < sizeof hosts / sizeof *hosts; k++) {
        snprintf(host, sizeof host, hosts[k], s.port); // NOLINT: a list of formats
        assert_status(&s, "GET", path, host, 404);
    }
    assert_status(&s, "GET", path, NULL, 404);
    snprintf(host, sizeof host, "127.0.0.1:%d", s.port);

    // Paths that are nearly right.
    assert_status(&s, "GET", "/", host, 404);
    assert_status(&s, "GET", "/page.html", host, 404);
    assert_status(&s, "GET", "/favicon.ico", host, 404);
    for (int k = 0; k < 32; k++) {
        snprintf(path, sizeof path, "/%s/", s.token);
        path[1 + k] = path[1 + k] == '0' ? '1' : '0';
        assert_status(&s, "GET", path, host, 404);
    }
    snprintf(path, sizeof path, "/%.31s/", s.token);
    assert_status(&s, "GET", path, host, 404);
    snprintf(path, sizeof path, "/%s0/", s.token);
    assert_status(&s, "GET", path, host, 404);
    snprintf(path, sizeof path, "//%s/", s.token);
    assert_status(&s, "GET", path, host, 404);
    snprintf(path, sizeof path, "/./%s/", s.token);
    assert_status(&s, "GET", path, host, 404);

    // Who does not know it learns nothing: not even which methods there are.
    assert_status(&s, "POST", "/", host, 404);
    snprintf(path, sizeof path, "/%s/", s.token);
    static const char* const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"};
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        assert_status(&s, methods[k], path, host, 405);
    }
    response r = ask(&s, "POST", path, host);
    assert_string_equal(header(&r, "Allow"), "GET, HEAD");
    response_free(&r);

    // Without the last slash names in the page would be looked for beside it.
    snprintf(path, sizeof path, "/%s", s.token);
    r = ask(&s, "GET", path, host);
    assert_int_equal(r.status, 308);
    snprintf(path, sizeof path, "/%s/", s.token);
    assert_string_equal(header(&r, "Location"), path);
    response_free(&r);
    end_site(&s, SIGINT);
}

static void it_listens_on_this_machine_only(void** state) {
    (void)state;
    tempdir_write("page.html", "hello");
    site s = start_site("page.html");
    int found = 0;
    static const char* const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    for (int k = 0; k < 2; k++) {
        char line[512], address[64];
        unsigned port, status;
        FILE* table = fopen(tables[k], "r");
        if (!table) continue;
        while (fgets(line, sizeof line, table)) {
            if (sscanf(line, " %*d: %63[0-9A-F]:%x %*[0-9A-F]:%*x %x", address, &port, &status) !=
                    3 ||
                port != (unsigned)s.port || status != 0x0a) { // 0a: listens
                continue;
            }
            uint32_t loopback = htonl(INADDR_LOOPBACK);
            char expected[16];
            snprintf(expected, sizeof expected, "%08X", loopback);
            assert_string_equal(address, expected);
            found++;
        }
        fclose(table);
    }
    assert_int_equal(found, 1);
    end_site(&s, SIGTERM);
}

static void two_servers_do_not_know_each_other(void** state) {
    (void)state;
    tempdir_write("page.html", "hello");
    site a = start_site("page.html"), b = start_site("page.html");
    assert_int_not_equal(a.port, b.port);
    assert_string_not_equal(a.token, b.token);
    assert_shows(&a, "", html, "hello");
    assert_shows(&b, "", html, "hello");
    char path[64];
    snprintf(path, sizeof path, "/%s/", a.token);
    assert_status(&b, "GET", path, our_host(&b), 404);
    snprintf(path, sizeof path, "/%s/", b.token);
    assert_status(&b, "GET", path, our_host(&a), 404);
    end_site(&a, SIGTERM);
    assert_shows(&b, "", html, "hello");
    end_site(&b, SIGTERM);
}

static void nonsense_does_not_end_it(void** state) {
    (void)state;
    tempdir_write("page.html", "hello");
    site s = start_site("page.html");
    char good[256];
    int size =
        snprintf(good, sizeof good, "GET /%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", s.token, our_host(&s));
    uint32_t x = 7;
    for (int k = 0; k < 300; k++) {
        char request[256];
        memcpy(request, good, (size_t)size);
        for (int n = 0; n <= k % 8; n++) {
            x = x * 1664525u + 1013904223u;
            request[(x >> 16) % (uint32_t)size] = (char)(x >> 8);
        }
        size_t part = k % 3 == 0 ? (x >> 16) % (uint32_t)size + 1 : (size_t)size;
        response r = speak(s.port, request, part);
        if (r.status != 0) assert_guarded(&r);
        response_free(&r);
    }

    // A head that never ends.
    enum { LONG = 1 << 17 };
    char* request = malloc(LONG);
    memset(request, 'x', LONG);
    memcpy(request, good, (size_t)size - 2);
    response r = speak(s.port, request, LONG);
    assert_true(r.status == 0 || r.status == 413 || r.status == 400);
    if (r.status != 0) assert_guarded(&r);
    response_free(&r);
    free(request);
    assert_shows(&s, "", html, "hello");
    end_site(&s, SIGTERM);
}

// ---- folders -------------------------------------------------------------------------------

static void nothing_outside_the_folder_is_served(void** state) {
    (void)state;
    tempdir_write("secret.html", "SECRET");
    tempdir_write("secret.json", "SECRET");
    tempdir_mkdir("fit");
    tempdir_mkdir("fit/part");
    tempdir_mkdir("fit/folder.html");
    tempdir_write("fit/report.html", "the report");
    tempdir_write("fit/part/report.html", "of a part");
    tempdir_write("fit/part/a b.csv", "1,2\n");
    tempdir_write("fit/part/100%.json", "{}");
    tempdir_write("fit/part/%2e%2e.svg", "<svg/>");
    tempdir_write("fit/part/ä.png", "png");
    tempdir_write("fit/fitted.yaml", "SECRET");
    tempdir_write("fit/.hidden.html", "SECRET");
    assert_int_equal(symlink("../secret.html", tempdir_path("fit/link.html")), 0);
    assert_int_equal(symlink("..", tempdir_path("fit/up")), 0);
    assert_int_equal(symlink(tempdir(), tempdir_path("fit/part/up")), 0);
    assert_int_equal(symlink("/dev/zero", tempdir_path("fit/zero.html")), 0);
    assert_int_equal(mkfifo(tempdir_path("fit/pipe.html"), 0666), 0);
    FILE* sparse = fopen(tempdir_path("fit/large.csv"), "wb");
    assert_non_null(sparse);
    assert_int_equal(ftruncate(fileno(sparse), (512L << 20) + 1), 0);
    fclose(sparse);
    site s = start_site("fit");

    assert_shows(&s, "", html, "the report");
    assert_shows(&s, "report.html", html, "the report");
    assert_shows(&s, "part/report.html", html, "of a part");
    assert_shows(&s, "p%61rt/report%2ehtml", html, "of a part");
    assert_shows(&s, "part/a%20b.csv", "text/csv; charset=utf-8", "1,2");
    assert_shows(&s, "part/100%25.json", "application/json", "{}");
    assert_shows(&s, "part/%252e%252e.svg", "image/svg+xml", "<svg/>"); // decoded once
    assert_shows(&s, "part/%C3%A4.png", "image/png", "png");

    char absolute[256], far[4200];
    snprintf(absolute, sizeof absolute, "/%s", tempdir_path("secret.html"));
    memset(far, 'x', sizeof far - 1);
    memcpy(far + sizeof far - 6, ".html", 6);
    const char* const refused[] = {"../secret.html",
                                   "..//secret.html",
                                   "part/../../secret.html",
                                   "./report.html",
                                   "part/../report.html",
                                   "%2e%2e/secret.html",
                                   "%2E%2E/secret.html",
                                   ".%2e/secret.html",
                                   "..%2fsecret.html",
                                   "%2e%2e%2fsecret.html",
                                   "part%2freport.html",
                                   "part%2Freport.html",
                                   "%252e%252e/secret.html",
                                   "..\\secret.html",
                                   "..%5csecret.html",
                                   "part\\report.html",
                                   "part//report.html",
                                   "/report.html",
                                   "report.html/",
                                   "part/",
                                   "part",
                                   absolute,
                                   absolute + 1,
                                   "%2fetc%2fhosts",
                                   "//etc/hosts",
                                   "link.html",
                                   "up/secret.html",
                                   "up/fit/report.html",
                                   "part/up/secret.html",
                                   "zero.html",
                                   "pipe.html",
                                   "folder.html",
                                   "folder.html/",
                                   "large.csv",
                                   "fitted.yaml",
                                   ".hidden.html",
                                   "report.html%00",
                                   "report.html%00.html",
                                   "report.html%",
                                   "report.html%4",
                                   "%g0report.html",
                                   "%-1.html",
                                   "report.html%0a",
                                   "%7freport.html",
                                   "missing.html",
                                   "report",
                                   "REPORT.HTML",
                                   ".html",
                                   far,
                                   "progress",
                                   "checkpoint.json"};
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
        response r = get(&s, refused[k]);
        if (r.status != 404 || strstr(r.body, "SECRET") || r.size > 20) {
            fail_msg("'%s': %d, %s", refused[k], r.status, r.bytes);
        }
        response_free(&r);
    }
    end_site(&s, SIGTERM);
}

static void what_cannot_be_viewed_is_said(void** state) {
    (void)state;
    tempdir_mkdir("empty");
    tempdir_write("robot.urdf", "<robot name=\"r\"/>");
    assert_int_equal(mkfifo(tempdir_path("pipe.html"), 0666), 0);
    run_bad("view", 2, "expected one page or folder");
    run_bad("view a b", 2, "expected one page or folder");
    run_bad("view missing", 1, "missing: cannot be opened: No such file");
    run_bad("view empty", 1, "no report.html and no fit is running in empty");
    run_bad("view robot.urdf", 1,
            "robot.urdf cannot be viewed; give a page (.html), or the folder of a fit");
    run_bad("view pipe.html", 1, "cannot be viewed");
    run_bad("view empty >/dev/full", 1, "no report.html");
    tempdir_write("empty/report.html", "hello");
    run_bad("view empty --no-browser >/dev/full", 1, "No space left");
    run_ok("view --help");
    assert_says(last.out, "--no-browser");
}

static void the_browser_gets_the_address(void** state) {
    (void)state;
    tempdir_write("page.html", "hello");
    char script[1200];
    snprintf(script, sizeof script,
             "#!/bin/sh\nkill -0 $$ && printf '%%s %%s' \"$#\" \"$1\" >'%s.part' && "
             "mv '%s.part' '%s'\n",
             tempdir_path("opened"), tempdir_path("opened"), tempdir_path("opened"));
    tempdir_write("browser of mine", script);
    assert_int_equal(chmod(tempdir_path("browser of mine"), 0755), 0);
    setenv("BROWSER", tempdir_path("browser of mine"), 1);
    site s = start_site_with(tempdir_path("page.html"), NULL);
    unsetenv("BROWSER");
    for (double begin = now(); access(tempdir_path("opened"), R_OK) != 0;) {
        assert_true(now() - begin < PATIENCE);
        wait_milliseconds(5);
    }
    char expected[160];
    snprintf(expected, sizeof expected, "1 %s", s.address);
    char* opened = tempdir_read("opened");
    assert_string_equal(opened, expected);
    free(opened);
    end_site(&s, SIGTERM);
}

// ---- fits ----------------------------------------------------------------------------------

static json_t* progress_of(const site* s) {
    response r = get(s, "progress");
    assert_int_equal(r.status, 200);
    assert_string_equal(header(&r, "Content-Type"), "application/json");
    json_t* progress = json_loadb(r.body, r.size, 0, NULL);
    assert_non_null(progress);
    response_free(&r);
    return progress;
}

static void set_age(const char* name, double seconds) {
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= (time_t)seconds;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, tempdir_path(name), times, 0), 0);
}

static void a_folder_shows_what_its_fit_does(void** state) {
    (void)state;
    static const char running[] =
        "{\"state\": \"running\", \"title\": \"<b>x</b>\", \"history\": [], \"message\": null}";
    static const char mark[] = "<div id=\"live\" data-url=\"progress\"></div>";
    tempdir_mkdir("live");
    tempdir_write("live/progress.json", running);
    set_age("live/progress.json", 100);
    site s = start_site("live");
    assert_shows(&s, "", html, mark);
    assert_shows(&s, "", html, "<h1>&lt;b&gt;x&lt;/b&gt;</h1>");
    assert_shows(&s, "", html, "connect-src 'self'");
    json_t* progress = progress_of(&s);
    assert_string_equal(json_string_value(json_object_get(progress, "state")), "running");
    double age = json_real_value(json_object_get(progress, "age"));
    assert_true(age >= 99.0 && age < 100.0 + PATIENCE);
    json_decref(progress);

    // A report from before is there to be read.
    tempdir_write("live/report.html", "REPORT");
    set_age("live/report.html", 200);
    assert_shows(&s, "", html, mark);
    assert_shows(&s, "", html, "href=\"report.html\"");
    assert_shows(&s, "report.html", html, "REPORT");

    // It is done when its report is newer, or when it says so.
    set_age("live/report.html", 50);
    assert_shows(&s, "", html, "REPORT");
    set_age("live/report.html", 200);
    tempdir_write("live/progress.json", "{\"state\": \"done\"}");
    assert_shows(&s, "", html, "REPORT");

    // A failure is not hidden by the report of the fit before.
    tempdir_write("live/progress.json", "{\"state\": \"failed\", \"message\": \"no <start>\"}");
    assert_shows(&s, "", html, "no &lt;start&gt;");
    assert_shows(&s, "", html, "href=\"report.html\"");
    set_age("live/progress.json", 300);
    assert_shows(&s, "", html, "REPORT");

    // Without a report a failure is told, once: nothing there loads the page again.
    tempdir_write("live/progress.json", "{\"state\": \"failed\", \"message\": \"no <start>\"}");
    assert_int_equal(unlink(tempdir_path("live/report.html")), 0);
    assert_shows(&s, "", html, "no &lt;start&gt;");
    response r = get(&s, "");
    assert_null(strstr(r.body, "id=\"live\""));
    response_free(&r);

    // What is damaged is as if it were not there.
    static char deep[1 << 20];
    memset(deep, '[', sizeof deep - 1);
    const char* const damaged[] = {"", "{", "[1]", "{\"state\": 1}", "{\"state\": null}", deep};
    for (size_t k = 0; k < sizeof damaged / sizeof *damaged; k++) {
        tempdir_write("live/progress.json", damaged[k]);
        assert_shows(&s, "", html, "no fit is running");
        r = get(&s, "progress");
        assert_int_equal(r.status, 404);
        response_free(&r);
    }
    end_site(&s, SIGTERM);
}

// A fit that would go on for minutes.
static const char slow_fit[] = "title: A slow fit\n"
                               "model: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"
                               "integrator: rk4\n"
                               "timestep: 0.02\n"
                               "data: {train: [{file: " NEURALSIM_SOURCE_DIR
                               "/examples/pendulum_recording.csv, trajectories: 0-2}]}\n"
                               "parameters: {link/*/mass: free}\n"
                               "train: {window: 25, initial_state: recorded, method: adam, "
                               "learning_rate: 1e-6, iterations: 1000000, "
                               "tolerance: 0}\n";

static void a_running_fit_can_be_watched(void** state) {
    (void)state;
    char file[256], out[256];
    snprintf(file, sizeof file, "%s", tempdir_path("slow.yaml"));
    snprintf(out, sizeof out, "%s", tempdir_path("slow"));
    tempdir_write("slow.yaml", slow_fit);
    const char* arguments[] = {"neuralsim", "fit", file, "-o", out, "--threads", "1", NULL};
    int nowhere = open("/dev/null", O_WRONLY);
    pid_t fit = start(arguments, nowhere);
    close(nowhere);
    for (double begin = now(); access(tempdir_path("slow/progress.json"), R_OK) != 0;) {
        assert_true(now() - begin < PATIENCE);
        wait_milliseconds(5);
    }
    site s = start_site("slow");
    assert_shows(&s, "", html, "<h1>A slow fit</h1>");
    assert_shows(&s, "", html, "id=\"live\"");

    // It goes on while we look, and says so soon.
    double first = -1.0, seconds = -1.0;
    for (double begin = now(); first < 0.0 || seconds <= first;) {
        assert_true(now() - begin < PATIENCE);
        json_t* progress = progress_of(&s);
        assert_string_equal(json_string_value(json_object_get(progress, "state")), "running");
        if (json_object_get(progress, "phase") != json_null()) {
            assert_string_equal(json_string_value(json_object_get(progress, "phase")),
                                "windows of 25, Adam");
            assert_int_equal(json_integer_value(json_object_get(progress, "count")), 1);
            assert_true(json_array_size(json_object_get(progress, "history")) > 0);
            seconds = json_number_value(json_object_get(progress, "seconds"));
            if (first < 0.0) first = seconds;
        }
        json_decref(progress);
        wait_milliseconds(50);
    }

    // Stopped, its report is there.
    kill(fit, SIGINT);
    assert_int_equal(end_of(fit), 130);
    json_t* progress = progress_of(&s);
    assert_string_equal(json_string_value(json_object_get(progress, "state")), "stopped");
    json_decref(progress);
    char* report = tempdir_read("slow/report.html");
    response r = get(&s, "");
    assert_int_equal(r.size, strlen(report));
    assert_memory_equal(r.body, report, r.size);
    response_free(&r);
    free(report);
    end_site(&s, SIGTERM);
}

static void a_fit_says_how_it_ended(void** state) {
    (void)state;
    char arguments[600];
    snprintf(arguments, sizeof arguments, "fit examples/pendulum_fit.yaml -o %s",
             tempdir_path("ends"));
    program_result result = program_run(NEURALSIM_SOURCE_DIR, arguments);
    assert_int_equal(result.code, 0);
    program_result_free(&result);
    json_t* progress = json_load_file(tempdir_path("ends/progress.json"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(progress, "state")), "done");
    assert_true(json_is_null(json_object_get(progress, "message")));
    json_decref(progress);

    // One that goes wrong replaces it.
    tempdir_write("slow.yaml", slow_fit);
    tempdir_write("ends/checkpoint.json", "damaged");
    snprintf(arguments, sizeof arguments, "fit slow.yaml -o ends --resume");
    run_bad(arguments, 1, "checkpoint");
    progress = json_load_file(tempdir_path("ends/progress.json"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(progress, "state")), "failed");
    assert_string_equal(json_string_value(json_object_get(progress, "title")), "A slow fit");
    const char* message = json_string_value(json_object_get(progress, "message"));
    assert_non_null(message);
    assert_says(last.err, message);
    json_decref(progress);
}

// ---- main ----------------------------------------------------------------------------------

#define TEST(name) cmocka_unit_test_teardown(name, kill_children)

static int begin(void** state) {
    (void)state;
    unsetenv("BROWSER");
    unsetenv("DISPLAY");
    unsetenv("WAYLAND_DISPLAY");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_page_is_served_to_the_byte),    TEST(only_who_knows_the_address_gets_an_answer),
        TEST(it_listens_on_this_machine_only), TEST(two_servers_do_not_know_each_other),
        TEST(nonsense_does_not_end_it),        TEST(nothing_outside_the_folder_is_served),
        TEST(what_cannot_be_viewed_is_said),   TEST(it_ends_cleanly_from_the_beginning),
        TEST(the_browser_gets_the_address),    TEST(a_folder_shows_what_its_fit_does),
        TEST(a_running_fit_can_be_watched),    TEST(a_fit_says_how_it_ended),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
