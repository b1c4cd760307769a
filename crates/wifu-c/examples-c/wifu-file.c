/* Sends a file over WiFu and has it echoed back.
 *
 *   wifu-file serve PORT [COUNT]           echo whatever comes, for COUNT connections (0: forever)
 *   wifu-file send ADDRESS PORT FILE       send FILE, compare what comes back, print the rate
 *
 * Build: cc -Iinclude examples-c/wifu-file.c libwifu.a -o wifu-file
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wifu.h>

static void die(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in address(const char *ip, const char *port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, ip, &a.sin_addr) != 1) {
        fprintf(stderr, "%s: not an IPv4 address\n", ip);
        exit(1);
    }
    return a;
}

static void echo(int fd) {
    static char buffer[65536];
    ssize_t n;
    while ((n = wifu_recv(fd, buffer, sizeof buffer, 0)) > 0)
        for (ssize_t done = 0; done < n;) {
            ssize_t m = wifu_send(fd, buffer + done, (size_t)(n - done), MSG_NOSIGNAL);
            if (m < 0) die("send");
            done += m;
        }
    if (n < 0) perror("recv");
    wifu_close(fd);
}

static int serve(const char *port, long count) {
    struct sockaddr_in a = address("0.0.0.0", port);
    int one = 1, fd = wifu_socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) die("wifu_socket");
    wifu_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (wifu_bind(fd, (struct sockaddr *)&a, sizeof a) < 0) die("wifu_bind");
    if (wifu_listen(fd, 16) < 0) die("wifu_listen");
    printf("listening on port %s\n", port);
    fflush(stdout);
    for (long i = 0; count == 0 || i < count; i++) {
        socklen_t len = sizeof a;
        int peer = wifu_accept(fd, (struct sockaddr *)&a, &len);
        if (peer < 0) die("wifu_accept");
        printf("connection from %s:%d\n", inet_ntoa(a.sin_addr), ntohs(a.sin_port));
        fflush(stdout);
        echo(peer);
    }
    return wifu_close(fd);
}

/* Sends and compares at once: one that only sent would stop when the echo fills all buffers. */
static void send_and_compare(int fd, int file, off_t size) {
    static char got[65536], want[65536];
    off_t sent = 0, compared = 0;
    for (int ended = 0; !ended;) {
        struct pollfd p = {.fd = fd, .events = (short)(POLLIN | (sent < size ? POLLOUT : 0))};
        if (poll(&p, 1, 30000) <= 0) die("poll");
        if (p.revents & POLLOUT) {
            ssize_t n = sendfile(fd, file, &sent, (size_t)(size - sent));
            if (n < 0 && errno != EAGAIN) die("sendfile");
            if (sent == size) wifu_shutdown(fd, SHUT_WR);
        }
        if (p.revents & ~POLLOUT) {
            ssize_t n = wifu_recv(fd, got, sizeof got, 0);
            if (n < 0 && errno == EAGAIN) continue;
            if (n < 0) die("recv");
            ended = n == 0;
            if (pread(file, want, (size_t)n, compared) != n || memcmp(got, want, (size_t)n)) {
                fprintf(stderr, "echo differs after byte %lld\n", (long long)compared);
                exit(1);
            }
            compared += n;
        }
    }
    if (compared != size) {
        fprintf(stderr, "echo ends after byte %lld\n", (long long)compared);
        exit(1);
    }
}

static int send_file(const char *ip, const char *port, const char *path) {
    struct sockaddr_in a = address(ip, port);
    struct stat st;
    struct timespec t0, t1;
    char name[32] = "";
    socklen_t len = sizeof name;
    int one = 1, file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &st) < 0) die(path);
    int fd = wifu_socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) die("wifu_socket");
    if (wifu_connect(fd, (struct sockaddr *)&a, sizeof a) < 0) die("wifu_connect");
    wifu_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    wifu_getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len);
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) die("fcntl");
    clock_gettime(CLOCK_MONOTONIC, &t0);
    send_and_compare(fd, file, st.st_size);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    double s = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
    printf("%lld bytes there and back over %s in %.3f s, %.1f Mb/s each way\n",
           (long long)st.st_size, name, s, (double)st.st_size * 8 / s / 1e6);
    return wifu_close(fd);
}

int main(int argc, char **argv) {
    if (argc >= 3 && !strcmp(argv[1], "serve")) return serve(argv[2], argc > 3 ? atol(argv[3]) : 0);
    if (argc == 5 && !strcmp(argv[1], "send")) return send_file(argv[2], argv[3], argv[4]);
    fprintf(stderr, "usage: %s serve PORT [COUNT] | send ADDRESS PORT FILE\n", argv[0]);
    return 2;
}
