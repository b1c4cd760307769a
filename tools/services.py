"""Databases, web servers, file servers and language runtimes over WiFu.

Each server has its data in the lab's folder, and becomes the user that its package would make it.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from app_world import SIZE, Account, Command, World, expect
from netlab import ROOT, LabError, run

EARLY = ROOT / "crates" / "wifu" / "tests" / "live" / "early.py"
APACHE = """\
ServerRoot {folder}
ServerName wifu
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
Mutex file:{folder} default
Listen {port}
User www-data
Group www-data
DocumentRoot {served}
"""
HAPROXY = """\
global
    chroot {empty}
    user nobody
    group nogroup
defaults
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    default_backend other
frontend requests
    mode http
    bind {a}:{port}
frontend bytes
    mode tcp
    option splice-auto
    bind {a}:{port_of_bytes}
    default_backend other-bytes
backend other
    mode http
    server b {b}:{other} check inter 200ms
backend other-bytes
    mode tcp
    option splice-auto
    server b {b}:{other}
"""
VSFTPD = """\
listen=YES
listen_address={a}
listen_port={port}
background=NO
anonymous_enable=YES
no_anon_password=YES
local_enable=NO
write_enable=YES
anon_upload_enable=YES
anon_umask=022
anon_root={root}
ftp_username=ftp
nopriv_user=nobody
secure_chroot_dir={empty}
xferlog_enable=NO
connect_from_port_20=NO
"""
SSHD = """\
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM {pam}
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
Subsystem sftp internal-sftp
"""
# The primary process accepts and passes each connection to a worker. POSTs are refused unread.
NODE = """\
const cluster = require("cluster"), fs = require("fs"), http = require("http");
const [what, where, file] = process.argv.slice(2);
const post = (url) => new Promise((done) => {
    const request = http.request(url, { method: "POST", agent: false }, (answer) => {
        answer.resume();
        done(answer.statusCode);
    });
    request.on("error", (error) => done(error.code));
    request.end(Buffer.alloc(2_000_000));
});
const ask = async (url) => {
    const answers = [];
    for (let i = 0; i < 30; i++) answers.push(await post(url));
    console.log(JSON.stringify(answers));
    http.get(url, (answer) => answer.pipe(fs.createWriteStream(file)));
};
const answer = (request, answer) => {
    if (request.method !== "POST") return fs.createReadStream(file).pipe(answer);
    answer.writeHead(413, { Connection: "close" });
    answer.end("x".repeat(3000));
};
if (what === "ask") ask(where);
else if (cluster.isPrimary) for (let i = 0; i < 2; i++) cluster.fork();
else http.createServer(answer).listen(Number(where));
"""
# HttpServer and HttpClient are on channels and selectors, the echo is on plain sockets.
JAVA = """\
import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.net.http.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;

class Both {
    static void serve(int port, Path file) throws Exception {
        var echo = new ServerSocket(port + 1);
        var server = HttpServer.create(new InetSocketAddress(port), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 0);
            try (var out = exchange.getResponseBody()) {
                Files.copy(file, out);
            }
        });
        server.start();
        while (true) {
            var peer = echo.accept();
            new Thread(() -> {
                try (peer) {
                    peer.getInputStream().transferTo(peer.getOutputStream());
                } catch (java.io.IOException e) {
                    e.printStackTrace();
                }
            }).start();
        }
    }

    static void ask(String host, int port, Path file) throws Exception {
        var data = Files.readAllBytes(file);
        var client = HttpClient.newHttpClient();
        var url = URI.create("http://" + host + ":" + port + "/");
        var request = HttpRequest.newBuilder(url).build();
        var all = new ArrayList<CompletableFuture<HttpResponse<byte[]>>>();
        for (int i = 0; i < 4; i++)
            all.add(client.sendAsync(request, HttpResponse.BodyHandlers.ofByteArray()));
        for (var one : all)
            if (!Arrays.equals(one.get().body(), data)) throw new Exception("not what was served");
        try (var socket = new Socket(host, port + 1)) {
            var writer = new Thread(() -> {
                try {
                    socket.getOutputStream().write(data);
                    socket.shutdownOutput();
                } catch (java.io.IOException e) {
                    e.printStackTrace();
                }
            });
            writer.start();
            var got = socket.getInputStream().readAllBytes();
            if (!Arrays.equals(got, data)) throw new Exception("not what was sent");
        }
        System.out.println("4 served, 1 echoed");
        System.exit(0);
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("serve")) serve(Integer.parseInt(args[1]), Path.of(args[2]));
        ask(args[1], Integer.parseInt(args[2]), Path.of(args[3]));
    }
}
"""


def lines(w: World) -> Path:
    """Return a file of 27,000 lines that every database takes as it is."""
    path = w.file.parent / "lines"
    path.write_bytes(base64.encodebytes(w.file.read_bytes()[:1_500_000]))
    return path


def same(path: Path, data: bytes) -> None:
    """Fail if a file has not this content."""
    got = path.read_bytes()
    expect(path.name, got == data, f"{len(got)} bytes are not the {len(data)} that were sent")
    path.unlink()


def redis(w: World) -> None:
    """A value of 5 MB there and back, 20 clients at once, and a replica on the other host."""
    options = ["--port", "6379", "--save", "", "--protected-mode", "no"]
    options += ["--repl-diskless-sync-delay", "0", "--dir"]
    server = w.serve(6379, "redis-server", *options, w.folder("redis-a"))
    cli = f"redis-cli -h {w.lab.a.address}"
    got = w.lab.scratch / "got"
    w.ask("sh", "-c", f"{cli} -x set key < {w.file} && {cli} --raw get key > {got}")
    same(got, w.file.read_bytes() + b"\n")
    load: Command = ["redis-benchmark", "-h", w.lab.a.address, "-n", "5000", "-c", "20"]
    said = w.ask(*load, "--csv", "-t", "set,get,lpush")
    expect("redis-benchmark", said.count("\n") == 4 and "rror" not in said, said)
    of: Command = ["--replicaof", f"{w.lab.a.address} 6379"]
    replica = w.serve(6379, "redis-server", *options, w.folder("redis-b"), *of, host=w.lab.b)
    # WAIT is about what its own connection wrote.
    said = w.ask("sh", "-c", f"printf 'set late word\\nwait 1 20000\\n' | {cli}")
    expect("the replica has all", said.split() == ["OK", "1"], said)
    w.ask("sh", "-c", f"redis-cli -h {w.lab.b.address} --raw get key > {got}")
    same(got, w.file.read_bytes() + b"\n")
    replica.stop()
    server.stop()


def postgresql(w: World) -> None:
    """COPY of 27,000 lines there and back, and pgbench, whose books must balance."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        raise LabError("missing: postgresql; `make` installs it (scripts/setup.sh)")
    user, data = Account("postgres"), w.folder("postgresql", "postgres")
    how = ["--no-sync", "--no-locale", "-E", "UTF8", "-A", "trust", "-U", "postgres"]
    # In the namespace, so that an interrupted lab finds its children.
    w.lab.a.run(*user.before(), found[-1] / "initdb", *how, "-D", data, timeout=60)
    with (data / "pg_hba.conf").open("a") as rules:
        rules.write("host all all 10.77.0.0/24 trust\n")
    alone = ["unix_socket_directories=", "fsync=off", f"listen_addresses={w.lab.a.address}"]
    settings = [word for one in alone for word in ("-c", one)]
    command: Command = [*user.before(), found[-1] / "postgres", "-D", data, *settings]
    server = w.serve(5432, *command)
    to: Command = ["-h", w.lab.a.address, "-U", "postgres"]

    def sql(*statements: str) -> str:
        words = [word for one in statements for word in ("-c", one)]
        return w.ask("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *to, *words)

    sent, got = lines(w), w.lab.scratch / "got"
    sql("create table t (line text)", f"\\copy t from {sent}", f"\\copy t to {got}")
    same(got, sent.read_bytes())
    w.ask("pgbench", "-i", "-q", "-s", "1", *to, "postgres")
    said = w.ask("pgbench", "-n", "-c", "4", "-j", "2", "-t", "100", *to, "postgres")
    expect("pgbench", "processed: 400/400" in said, said)
    books = "select (select sum(delta) from pgbench_history) = sum({0}), count(*) from pgbench_{1}"
    said = sql(books.format("abalance", "accounts"), "select count(*) from pgbench_history")
    expect("pgbench's books", said.split() == ["t|100000", "400"], said)
    server.stop(20)


def mariadb(w: World) -> None:
    """LOAD DATA of 27,000 lines, read back in order."""
    data = w.folder("mariadb", "nobody")
    none = ["--no-defaults", "--user=nobody", f"--datadir={data}"]
    quick = ["--skip-test-db", "--auth-root-authentication-method=normal"]
    w.lab.a.run("mariadb-install-db", *none, *quick, timeout=120)
    first = data / "first.sql"
    first.write_text(
        "create database w;\ncreate user w@'%';\ngrant all on w.* to w@'%';\n"
        "create table w.t (id int auto_increment primary key, line text);\n"
    )
    at = [f"--bind-address={w.lab.a.address}", "--port=3306", f"--socket={data}/sock"]
    server = w.serve(3306, "mariadbd", *none, *at, f"--init-file={first}")
    client: Command = ["mariadb", "--no-defaults", "-h", w.lab.a.address, "-u", "w"]
    client += ["--local-infile=1", "-N", "-B", "w", "-e"]
    sent = lines(w)
    w.ask(*client, f"load data local infile '{sent}' into table t (line)")
    said = w.ask(*client, "select line from t order by id")
    expect("what was loaded", said == sent.read_text(), said[:200])
    server.stop(20)


def java(w: World) -> None:
    """Java's HTTP server and client, four requests at once; an echo over plain sockets."""
    source = w.lab.scratch / "Both.java"
    source.write_text(JAVA)
    # Most of the time goes into compiling the source.
    quick = "-XX:TieredStopAtLevel=1"
    server = w.serve(8020, "java", quick, source, "serve", "8020", w.file)
    said = w.ask("java", quick, source, "ask", w.lab.a.address, "8020", w.file)
    expect("java", said.strip() == "4 served, 1 echoed", said)
    server.stop()


def node(w: World) -> None:
    """Two workers that the primary process passes connections to; early answers are heard.

    Node as client writes on where it could read, and drops an answer that it has if that write
    fails: on a busy machine one or two of thirty end with EPIPE over the kernel's TCP, too. None is
    lost to a client that reads whatever became of its writing.
    """
    script, got = w.lab.scratch / "both.js", w.lab.scratch / "got"
    script.write_text(NODE)
    server = w.serve(8030, "node", script, "serve", "8030", w.file)
    answers = json.loads(w.ask("node", script, "ask", w.url(8030), got))
    known = set(answers) <= {413, "EPIPE", "ECONNRESET"}
    expect("node's early answers", known and answers.count(413) >= 20, answers)
    w.compare(got)
    said = w.ask("python3", EARLY, "post", w.lab.a.address, "8030", "30")
    expect("answers to who reads after a failed write", said.strip() == "30 answered", said)
    server.stop()


def apache(w: World) -> None:
    """Apache with its event MPM, its children another user; ab with and without keep-alive."""
    folder, conf = w.folder("apache", "www-data"), w.lab.scratch / "apache.conf"
    modules = ["mpm_event", "authz_core"]
    load = "LoadModule {0}_module /usr/lib/apache2/modules/mod_{0}.so\n"
    text = APACHE.format(folder=folder, port=8040, served=w.file.parent)
    conf.write_text("".join(map(load.format, modules)) + text)
    (w.file.parent / "small").write_text("small\n")
    server = w.serve(8040, "apache2", "-f", conf, "-D", "FOREGROUND")
    got = w.lab.scratch / "got"
    w.ask("curl", "-sSf", "-o", got, w.url(8040))
    w.compare(got)
    for more, requests in (["-k"], 2000), ([], 500):
        said = w.ask("ab", "-q", "-n", str(requests), "-c", "20", *more, w.url(8040, "small"))
        words = " ".join(said.split())
        right = f"Complete requests: {requests} Failed requests: 0 " in words
        expect(f"ab {' '.join(more)}", right and "Non-2xx" not in words, said)
    server.stop()


def wrk(w: World) -> None:
    """Wrk with 40 connections to nginx."""
    (w.file.parent / "small").write_text("small\n")
    server = w.serve(8080, *w.nginx("8080"))
    said = w.ask("wrk", "-t", "2", "-c", "40", "-d", "2s", w.url(8080, "small"))
    wrong = "Socket errors" in said or "Non-2xx" in said or " 0 requests" in said
    expect("wrk", " requests in " in said and not wrong, said)
    server.stop()


def haproxy(w: World) -> None:
    """Haproxy behind a root of its own passes requests, and bytes, on to nginx on host b."""
    conf, empty = w.lab.scratch / "haproxy.cfg", w.folder("empty")
    other = w.serve(8080, *w.nginx("8080"), host=w.lab.b)
    ports = {"port": 8050, "port_of_bytes": 8051, "other": 8080}
    addresses = {"a": w.lab.a.address, "b": w.lab.b.address}
    conf.write_text(HAPROXY.format(empty=empty, **ports, **addresses))
    proxy = w.serve(8051, "haproxy", "-db", "-f", conf)
    expect("haproxy's root", proxy.root() == empty, proxy.root())
    got = w.lab.scratch / "got"
    for port in (8050, 8051, 8050, 8051):
        w.ask("curl", "-sSf", "-o", got, w.url(port))
        w.compare(got)
    proxy.stop()
    other.stop()


def vsftpd(w: World) -> None:
    """Vsftpd behind a root of its own; both ways, passive and active."""
    conf, root, empty = w.lab.scratch / "vsftpd.conf", w.folder("ftp"), w.folder("empty")
    w.folder("ftp/up", "ftp")
    conf.write_text(VSFTPD.format(a=w.lab.a.address, port=2121, root=root, empty=empty))
    server = w.serve(2121, "vsftpd", conf)
    got = w.lab.scratch / "got"
    for name, more in ("passive", []), ("active", ["-P", w.lab.b.address]):
        url = f"ftp://{w.lab.a.address}:2121/up/{name}"
        w.ask("curl", "-sSf", *more, "-T", w.file, url)
        w.ask("curl", "-sSf", *more, "-o", got, url)
        w.compare(got)
    server.stop()


@contextlib.contextmanager
def present(folder: Path) -> Iterator[None]:
    """Have a folder; where it was made for this it is removed, if nobody else has come to use it.

    That it cannot be removed hides no fault.
    """
    made = not folder.exists()
    folder.mkdir(mode=0o755, exist_ok=True)
    try:
        yield
    finally:
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def ssh(w: World) -> None:
    """A command with input and output, scp, and sftp both ways."""
    folder = w.folder("ssh")
    for key in ("host", "user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key)
    # A locked account is let in by PAM alone.
    pam = "yes" if run("getent", "shadow", "root").startswith("root:!") else "no"
    conf, known = folder / "sshd", folder / "known"
    conf.write_text(SSHD.format(port=2222, folder=folder, pam=pam))
    known.write_text(f"[{w.lab.a.address}]:2222 {(folder / 'host.pub').read_text()}")
    with present(Path("/run/sshd")):
        server = w.serve(2222, "/usr/sbin/sshd", "-D", "-e", "-f", conf)
        told: Command = ["-F", "none", "-i", folder / "user", "-o", f"UserKnownHostsFile={known}"]
        there, got = f"root@{w.lab.a.address}", w.lab.scratch / "got"
        command: Command = ["ssh", *told, "-p", "2222", there]
        said = w.ask(*command, "echo $SSH_CONNECTION").split()
        right = [said[0], *said[2:]] == [w.lab.b.address, w.lab.a.address, "2222"]
        expect("SSH_CONNECTION", right, said)
        redirected = 'file=$1 got=$2; shift 2; "$@" < $file > $got'
        w.ask("sh", "-c", redirected, "sh", w.file, got, *command, "cat")
        w.compare(got)
        w.ask("scp", *told, "-P", "2222", w.file, f"{there}:{got}")
        w.compare(got)
        batch = folder / "batch"
        batch.write_text(f"put {w.file} {folder}/up\nget {folder}/up {got}\n")
        w.ask("sftp", *told, "-P", "2222", "-b", batch, there)
        w.compare(got)
        server.stop()


CASES = [
    ("redis", 3 * SIZE, redis),
    ("postgresql", 4_000_000, postgresql),
    ("mariadb", 4_000_000, mariadb),
    ("java", 6 * SIZE, java),
    ("node", SIZE, node),
    ("apache2, ab, curl", SIZE, apache),
    ("nginx, wrk", 100_000, wrk),
    ("haproxy, nginx, curl", 8 * SIZE, haproxy),
    ("vsftpd, curl", 4 * SIZE, vsftpd),
    ("sshd, ssh, scp, sftp", 5 * SIZE, ssh),
]
