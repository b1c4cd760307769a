//! Words of scripts that stand for numbers of the system.

/// Error numbers that the stack gives, by name.
const ERRNOS: [(&str, i32); 25] = [
    ("EAFNOSUPPORT", libc::EAFNOSUPPORT),
    ("EADDRINUSE", libc::EADDRINUSE),
    ("EADDRNOTAVAIL", libc::EADDRNOTAVAIL),
    ("EAGAIN", libc::EAGAIN),
    ("EALREADY", libc::EALREADY),
    ("EBADF", libc::EBADF),
    ("ECONNABORTED", libc::ECONNABORTED),
    ("ECONNREFUSED", libc::ECONNREFUSED),
    ("ECONNRESET", libc::ECONNRESET),
    ("EFAULT", libc::EFAULT),
    ("EHOSTUNREACH", libc::EHOSTUNREACH),
    ("EINPROGRESS", libc::EINPROGRESS),
    ("EINVAL", libc::EINVAL),
    ("EISCONN", libc::EISCONN),
    ("ENETUNREACH", libc::ENETUNREACH),
    ("ENOBUFS", libc::ENOBUFS),
    ("ENOENT", libc::ENOENT),
    ("ENOPROTOOPT", libc::ENOPROTOOPT),
    ("ENOSYS", libc::ENOSYS),
    ("ENOTCONN", libc::ENOTCONN),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("EPIPE", libc::EPIPE),
    ("EPROTONOSUPPORT", libc::EPROTONOSUPPORT),
    ("ETIMEDOUT", libc::ETIMEDOUT),
    ("EWOULDBLOCK", libc::EWOULDBLOCK),
];

/// What else scripts name.
const WORDS: [(&str, i32); 55] = [
    ("AF_INET", libc::AF_INET),
    ("FIONREAD", libc::FIONREAD as i32),
    ("F_GETFL", libc::F_GETFL),
    ("F_SETFL", libc::F_SETFL),
    ("IPPROTO_IP", libc::IPPROTO_IP),
    ("IPPROTO_TCP", libc::IPPROTO_TCP),
    ("IP_MTU_DISCOVER", libc::IP_MTU_DISCOVER),
    ("IP_TOS", libc::IP_TOS),
    ("MSG_DONTWAIT", libc::MSG_DONTWAIT),
    ("MSG_EOR", libc::MSG_EOR),
    ("MSG_MORE", libc::MSG_MORE),
    ("MSG_NOSIGNAL", libc::MSG_NOSIGNAL),
    ("MSG_PEEK", libc::MSG_PEEK),
    ("MSG_WAITALL", libc::MSG_WAITALL),
    ("O_NONBLOCK", libc::O_NONBLOCK),
    ("O_RDWR", libc::O_RDWR),
    ("POLLERR", libc::POLLERR as i32),
    ("POLLHUP", libc::POLLHUP as i32),
    ("POLLIN", libc::POLLIN as i32),
    ("POLLNVAL", libc::POLLNVAL as i32),
    ("POLLOUT", libc::POLLOUT as i32),
    ("POLLRDHUP", libc::POLLRDHUP as i32),
    ("SHUT_RD", libc::SHUT_RD),
    ("SHUT_RDWR", libc::SHUT_RDWR),
    ("SHUT_WR", libc::SHUT_WR),
    ("SIOCINQ", libc::FIONREAD as i32),
    ("SIOCOUTQ", libc::TIOCOUTQ as i32),
    ("SOCK_NONBLOCK", libc::SOCK_NONBLOCK),
    ("SOCK_STREAM", libc::SOCK_STREAM),
    ("SOL_IP", libc::IPPROTO_IP),
    ("SOL_SOCKET", libc::SOL_SOCKET),
    ("SOL_TCP", libc::IPPROTO_TCP),
    ("SO_ACCEPTCONN", libc::SO_ACCEPTCONN),
    ("SO_BROADCAST", libc::SO_BROADCAST),
    ("SO_DOMAIN", libc::SO_DOMAIN),
    ("SO_ERROR", libc::SO_ERROR),
    ("SO_KEEPALIVE", libc::SO_KEEPALIVE),
    ("SO_LINGER", libc::SO_LINGER),
    ("SO_PRIORITY", libc::SO_PRIORITY),
    ("SO_PROTOCOL", libc::SO_PROTOCOL),
    ("SO_RCVBUF", libc::SO_RCVBUF),
    ("SO_REUSEADDR", libc::SO_REUSEADDR),
    ("SO_SNDBUF", libc::SO_SNDBUF),
    ("SO_TYPE", libc::SO_TYPE),
    ("TCP_CONGESTION", libc::TCP_CONGESTION),
    ("TCP_CORK", libc::TCP_CORK),
    ("TCP_KEEPCNT", libc::TCP_KEEPCNT),
    ("TCP_KEEPIDLE", libc::TCP_KEEPIDLE),
    ("TCP_KEEPINTVL", libc::TCP_KEEPINTVL),
    ("TCP_LINGER2", libc::TCP_LINGER2),
    ("TCP_MAXSEG", libc::TCP_MAXSEG),
    ("TCP_NODELAY", libc::TCP_NODELAY),
    ("TCP_QUICKACK", libc::TCP_QUICKACK),
    ("TCP_SYNCNT", libc::TCP_SYNCNT),
    ("TCP_USER_TIMEOUT", libc::TCP_USER_TIMEOUT),
];

/// The number that a word stands for.
pub(super) fn number(word: &str) -> Option<i64> {
    let mut all = WORDS.iter().chain(&ERRNOS);
    all.find_map(|(w, n)| (*w == word).then_some(i64::from(*n)))
}

/// The name of an error number.
pub(super) fn errno(number: i32) -> Option<&'static str> {
    let mut all = ERRNOS.iter();
    all.find_map(|(name, n)| (*n == number).then_some(*name))
}

/// Every word, to find which was meant.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    WORDS.iter().chain(&ERRNOS).map(|(w, _)| *w)
}
