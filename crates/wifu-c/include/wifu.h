/* WiFu sockets for C programs.
 *
 * The descriptor that wifu_socket() returns is a real descriptor of the kernel: read, write, readv,
 * writev, sendmsg, recvmsg, poll, select, epoll, fcntl, dup, fork, exec and sendfile work on it as
 * they are, as do the data calls below, which are there for programs written in the calls of the
 * WiFu paper. Calls that make and name connections must be the wifu_ ones.
 *
 * Link with libwifu.so, or with libwifu.a (and -lpthread -ldl -lm on older systems).
 *
 * The environment: WIFU_PROTOCOL names the composition of sockets made with protocol 0, as in
 * "tcp-newreno,iw=4"; WIFU_SOCKET names the daemon's socket, by default
 * /run/wifu/<inode of the network namespace>/daemon.sock.
 *
 * Errors are errno's. ENETDOWN: there is no daemon. ENOPROTOOPT: WiFu lacks this option, said once
 * per option on standard error.
 */
#ifndef WIFU_H
#define WIFU_H

#include <sys/types.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For `protocol` of wifu_socket(): 0 or IPPROTO_TCP for what WIFU_PROTOCOL says, or one of these.
 * The numbers are the protocols' numbers in the IP header. */
#define WIFU_TCP_TAHOE 207
#define WIFU_TCP_AP05 211
#define WIFU_TCP_AP11 212
#define WIFU_TCP_AP05_DELACK 213
#define WIFU_TCP_RENO 214
#define WIFU_TCP_NEWRENO 215
#define WIFU_TCP_SACK 216
#define WIFU_TCP_CUBIC 220
#define WIFU_TCP_LINUX 221
#define WIFU_TCP_LINUX_RENO 222
#define WIFU_TCP_VEGAS 223
#define WIFU_TCP_DCTCP 224
#define WIFU_TCP_BBR 225
#define WIFU_TCP_DELACK 209
#define WIFU_TCP_FEW 226
#define WIFU_TCP_CWL 227
#define WIFU_TCP_CLAMP 228
#define WIFU_AP_NEXT 229
#define WIFU_ATP 219
#define WIFU_ATP_AGGRESSIVE 230
#define WIFU_ATP_ADAPTIVE 231
#define WIFU_ATP_NEXT 234
#define WIFU_TP_ALPHA 208
#define WIFU_HXH 218
#define WIFU_HXH_NOLH 235
#define WIFU_HXH_NS2 236
#define WIFU_HXH_NEXT 237
#define WIFU_HOP 238

/* Level of WiFu's own options. */
#define SOL_WIFU 0x5769
/* A parameter of the protocol. To set: the text "name=value". To get: the buffer holds "name" and
 * receives the value. `wifu describe PROTOCOL` lists the names. */
#define WIFU_PARAM 1
/* The composition as text, "tcp-newreno,iw=4". To be set before connect or listen. */
#define WIFU_PROTOCOL 2

/* Also understood: SO_ERROR, SO_LINGER, SO_REUSEADDR, SO_RCVTIMEO, SO_SNDTIMEO, SO_SNDBUF,
 * SO_RCVBUF, TCP_NODELAY, TCP_MAXSEG, SO_KEEPALIVE with TCP_KEEPIDLE,
 * TCP_KEEPINTVL and TCP_KEEPCNT, TCP_USER_TIMEOUT, TCP_INFO, TCP_CONGESTION (the composition's name). */

int wifu_socket(int domain, int type, int protocol);
int wifu_bind(int fd, const struct sockaddr *addr, socklen_t len);
int wifu_listen(int fd, int backlog);
int wifu_accept(int fd, struct sockaddr *addr, socklen_t *len);
int wifu_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int wifu_connect(int fd, const struct sockaddr *addr, socklen_t len);
int wifu_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int wifu_getpeername(int fd, struct sockaddr *addr, socklen_t *len);
int wifu_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int wifu_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
ssize_t wifu_send(int fd, const void *data, size_t len, int flags);
ssize_t wifu_sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to,
                    socklen_t to_len);
ssize_t wifu_recv(int fd, void *data, size_t len, int flags);
ssize_t wifu_recvfrom(int fd, void *data, size_t len, int flags, struct sockaddr *from,
                      socklen_t *from_len);
int wifu_shutdown(int fd, int how);
int wifu_close(int fd);

#ifdef __cplusplus
}
#endif

#endif
