// A web server for local use: HTTP on 127.0.0.1 at a free port, below a random path.
//
//     server* s = server_start(find, context);
//     puts(server_address(s));                   // http://127.0.0.1:40123/<32 hex digits>/
//     ...
//     server_stop(s);
//
// It answers GET and HEAD requests that contain the random path. Other programs and users of the
// machine, and pages of other sites in the same browser, get 404.

#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include <neuralsim/base.h>

#include <stdbool.h>

// What is found under a name: a text, or a file when `file` is not -1. The server frees and closes
// them.
typedef struct server_answer {
    const char* type; // of the content, for a browser
    ns_text text;
    int file;           // regular, at its beginning
    uint64_t file_size; // bytes to send
} server_answer;

// Finds what stands under a name, "" for the address itself; false: nothing. Names are decoded; they
// are parts separated by "/", none of which is empty, begins with "." or has control characters or
// backslashes. Called by several threads at a time.
typedef bool server_find(void* context, const char* name, server_answer* out);

typedef struct server server;

// NULL after saying why. Signals that are blocked here do not reach the server's threads.
server* server_start(server_find* find, void* context);
const char* server_address(const server* s);
void server_stop(server* s); // within two seconds; NULL is allowed

#endif
