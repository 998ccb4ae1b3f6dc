// The web server. civetweb accepts connections and parses requests; this file decides who gets an
// answer and which. civetweb itself serves no folder and has no other handler.

#define _POSIX_C_SOURCE 200809L

#include "server.h"

#include "cli.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TOKEN_BYTES = 16, TOKEN_DIGITS = 2 * TOKEN_BYTES };

struct server {
    struct mg_context* context;
    server_find* find;
    void* find_context;
    char token[TOKEN_DIGITS + 1];
    int port;
    char address[96];
};

// ---- answers -------------------------------------------------------------------------------

// Nothing is kept by the browser or shown inside pages of others, and a page that is shown reaches
// this server and no other, whatever stands in it.
static const char headers[] =
    "Connection: close\r\n"
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "X-Frame-Options: DENY\r\n"
    "Content-Security-Policy: default-src 'self' 'unsafe-inline' data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'\r\n";

static bool send_head(struct mg_connection* connection, const char* status, const char* more,
                      const char* type, uint64_t size) {
    char head[1024];
    int length =
        snprintf(head, sizeof head,
                 "HTTP/1.1 %s\r\n%s%sContent-Type: %s\r\nContent-Length: %" PRIu64 "\r\n\r\n",
                 status, headers, more, type, size);
    return length > 0 && (size_t)length < sizeof head &&
           mg_write(connection, head, (size_t)length) == length;
}

// An answer without details: its body is its status.
static void send_status(struct mg_connection* connection, const char* status, const char* more,
                        bool body) {
    size_t size = strlen(status);
    if (send_head(connection, status, more, "text/plain; charset=utf-8", size) && body) {
        mg_write(connection, status, size);
    }
}

static const char* status_text(int status) {
    switch (status) {
    case 200: return "200 OK";
    case 308: return "308 Permanent Redirect";
    case 404: return "404 Not Found";
    case 405: return "405 Method Not Allowed";
    case 413: return "413 Content Too Large";
    default: return status < 500 ? "400 Bad Request" : "500 Internal Server Error";
    }
}

// What civetweb refuses by itself: requests that are too long or make no sense.
static int server_on_error(struct mg_connection* connection, int status, const char* message) {
    (void)message;
    send_status(connection, status_text(status), "", true);
    return 0; // answered
}

static void send_file(struct mg_connection* connection, int file, uint64_t size) {
    char bytes[1 << 16];
    while (size > 0) { // a file that became shorter ends the connection early, which a browser sees
        size_t part = size < sizeof bytes ? (size_t)size : sizeof bytes;
        ssize_t got = read(file, bytes, part);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0 || mg_write(connection, bytes, (size_t)got) != (int)got) return;
        size -= (uint64_t)got;
    }
}

static void send_text(struct mg_connection* connection, const ns_text* text) {
    enum { PART = 1 << 20 }; // mg_write counts in int
    for (size_t at = 0; at < text->size;) {
        size_t part = text->size - at < PART ? text->size - at : PART;
        if (mg_write(connection, text->data + at, part) != (int)part) return;
        at += part;
    }
}

static int send_answer(struct mg_connection* connection, server_answer* answer, bool body) {
    bool is_file = answer->file >= 0;
    uint64_t size = is_file ? answer->file_size : answer->text.size;
    bool sent = send_head(connection, status_text(200), "", answer->type, size);
    if (sent && body && is_file) send_file(connection, answer->file, size);
    if (sent && body && !is_file) send_text(connection, &answer->text);
    if (is_file) close(answer->file);
    ns_text_free(&answer->text);
    return 200;
}

// ---- requests ------------------------------------------------------------------------------

// A page of another site, whose name its owner lets point to 127.0.0.1, still calls us by that name
// (DNS rebinding).
static bool is_our_host(const char* host, int port) {
    static const char* const names[] = {"127.0.0.1", "localhost"};
    char expected[32];
    for (int k = 0; host && k < 2; k++) {
        snprintf(expected, sizeof expected, "%s:%d", names[k], port);
        if (strcasecmp(host, expected) == 0) return true;
    }
    return false;
}

// Does the path begin with "/<token>"? The time taken does not reveal how much of it is right.
static bool has_token(const server* s, const char* path) {
    if (strlen(path) < 1 + TOKEN_DIGITS || path[0] != '/') return false;
    unsigned different = 0;
    for (int k = 0; k < TOKEN_DIGITS; k++) {
        different |= (unsigned)(unsigned char)path[1 + k] ^ (unsigned)(unsigned char)s->token[k];
    }
    return different == 0;
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Decode a path, once, into a name as server_find wants it; false when it is none. A separator must
// be written as such: "%2f" is none.
static bool read_request_name(const char* path, char* name, size_t room) {
    size_t size = 0;
    for (; *path; path++) {
        int c = (unsigned char)*path;
        if (c == '%') {
            int high = digit_value(path[1]), low = high < 0 ? -1 : digit_value(path[2]);
            if (low < 0) return false;
            c = 16 * high + low;
            path += 2;
            if (c == '/') return false;
        }
        if (c < 0x20 || c == 0x7f || c == '\\' || size + 1 == room) return false;
        bool begins = size == 0 || name[size - 1] == '/';
        if (begins && (c == '.' || c == '/')) return false;
        name[size++] = (char)c;
    }
    name[size] = '\0';
    return size == 0 || name[size - 1] != '/';
}

static int answer(struct mg_connection* connection) {
    const struct mg_request_info* request = mg_get_request_info(connection);
    const server* s = request->user_data;
    // Methods that a viewer needs.
    bool get = strcmp(request->request_method, "GET") == 0;
    bool head = strcmp(request->request_method, "HEAD") == 0;
    const char* path = request->local_uri_raw; // as it came, without the query
    // The default answer tells nothing about the files.
    int status = 404;
    const char* more = "";
    char redirect[64], name[4096];

    // Requests without the token, or for another host, get 404 (DNS rebinding).
    bool ours = is_our_host(mg_get_header(connection, "Host"), request->server_port);
    if (path && ours && has_token(s, path)) {
        const char* rest = path + 1 + TOKEN_DIGITS;
        server_answer answer = {.file = -1};

        // Relative links need the slash after the token, so a request without it is redirected.
        // Nothing can be changed through this server.
        if (!get && !head) {
            status = 405;
            more = "Allow: GET, HEAD\r\n";
        } else if (*rest == '\0') {
            status = 308;
            snprintf(redirect, sizeof redirect, "Location: /%s/\r\n", s->token);
            more = redirect;
        } else if (*rest == '/' && read_request_name(rest + 1, name, sizeof name) &&
                   s->find(s->find_context, name, &answer)) {
            return send_answer(connection, &answer, get);
        }
    }

    send_status(connection, status_text(status), more, !head);
    return status;
}

typedef struct request {
    struct mg_connection* connection;
    int status;
} request;

static void* answer_in_thread(void* context) {
    request* r = context;
    r->status = answer(r->connection);
    return NULL;
}

// civetweb's threads have a stack of 100 kB where Debian built it; pages are made with the usual one.
static int on_request(struct mg_connection* connection) {
    request r = {.connection = connection, .status = 500};
    pthread_t thread;
    if (pthread_create(&thread, NULL, answer_in_thread, &r) == 0) {
        pthread_join(thread, NULL);
    } else {
        send_status(connection, status_text(r.status), "", true);
    }
    return r.status;
}

// ---- the server ----------------------------------------------------------------------------

static bool make_token(char* token) {
    unsigned char bytes[TOKEN_BYTES];
    ssize_t got = -1;
    do {
        got = getrandom(bytes, sizeof bytes, 0);
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof bytes) return false;
    for (int k = 0; k < TOKEN_BYTES; k++) snprintf(token + 2 * k, 3, "%02x", bytes[k]);
    return true;
}

static bool listen_here(server* s) {
    static const char* options[] = {"listening_ports",
                                    "127.0.0.1:0", // any that is free
                                    "num_threads",
                                    "16", // a browser holds some connections without asking
                                    "request_timeout_ms",
                                    "10000",
                                    "enable_keep_alive",
                                    "no",
                                    "decode_url",
                                    "no", // read_request_name() does
                                    NULL};
    static const struct mg_callbacks callbacks = {.begin_request = on_request,
                                                  .http_error = server_on_error};
    struct mg_server_port port;
    s->context = mg_start(&callbacks, s, options);
    if (!s->context || mg_get_server_ports(s->context, 1, &port) != 1) return false;
    s->port = port.port;
    snprintf(s->address, sizeof s->address, "http://127.0.0.1:%d/%s/", s->port, s->token);
    return true;
}

server* server_start(server_find* find, void* context) {
    server* s = calloc(1, sizeof *s);
    if (!s) {
        cli_fail("out of memory");
        return NULL;
    }
    s->find = find;
    s->find_context = context;
    mg_init_library(0);
    if (make_token(s->token) && listen_here(s)) return s;
    cli_fail("cannot serve pages at 127.0.0.1: %s", strerror(errno));
    server_stop(s);
    return NULL;
}

const char* server_address(const server* s) {
    return s->address;
}

// civetweb looks every two seconds whether it is to stop, and whenever somebody connects.
static void* knock(void* context) {
    const server* s = context;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL); // until mg_stop() has begun
    int door = socket(AF_INET, SOCK_STREAM, 0);
    if (door < 0) return NULL;
    (void)connect(door, (struct sockaddr*)&to, sizeof to);
    close(door);
    return NULL;
}

void server_stop(server* s) {
    if (!s) return;
    pthread_t thread;
    bool knocks = s->port != 0 && pthread_create(&thread, NULL, knock, s) == 0;
    mg_stop(s->context);
    if (knocks) pthread_join(thread, NULL);
    mg_exit_library();
    free(s);
}
