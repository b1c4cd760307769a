"""An echo server and its clients in asyncio.

echo.py serve PORT
echo.py ask IP PORT N       N connections at once, of 200 kB
echo.py crowd IP PORT N     N connections that are all open before the first one sends
echo.py turns IP PORT N     N connections, 20 at once
"""

import asyncio
import os
import resource
import sys


async def echo(reader, writer):
    """Send back whatever comes, then the end."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(port):
    """Echo until killed."""
    async with await asyncio.start_server(echo, "0.0.0.0", port, backlog=1024) as server:
        await server.serve_forever()


async def ask(host, port, size, crowd=None):
    """Send while receiving; compare."""
    reader, writer = await asyncio.open_connection(host, port)
    if crowd:
        await crowd.wait()
    data = os.urandom(size)

    async def send():
        writer.write(data)
        await writer.drain()
        writer.write_eof()

    _, got = await asyncio.gather(send(), reader.read(-1))
    writer.close()
    return got == data


async def many(how, host, port, count):
    """Do so many; count those that went well."""
    if how == "ask":
        return sum(await asyncio.gather(*(ask(host, port, 200_000) for _ in range(count))))
    if how == "crowd":
        crowd = asyncio.Barrier(count)
        return sum(await asyncio.gather(*(ask(host, port, 5_000, crowd) for _ in range(count))))

    async def turns():
        return sum([await ask(host, port, 100) for _ in range(count // 20)])

    return sum(await asyncio.gather(*(turns() for _ in range(20))))


_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
if sys.argv[1] == "serve":
    asyncio.run(serve(int(sys.argv[2])))
else:
    print(asyncio.run(many(*sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]))), "echoed")
