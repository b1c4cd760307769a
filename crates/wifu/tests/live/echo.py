"""An echo server and its clients in asyncio: echo.py serve PORT | ask IP PORT CONNECTIONS."""

import asyncio
import os
import sys


async def echo(reader, writer):
    """Send back whatever comes, then the end."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(port):
    """Echo until killed."""
    async with await asyncio.start_server(echo, "0.0.0.0", port) as server:
        await server.serve_forever()


async def ask(host, port):
    """Send while receiving; compare."""
    reader, writer = await asyncio.open_connection(host, port)
    data = os.urandom(200_000)

    async def send():
        writer.write(data)
        await writer.drain()
        writer.write_eof()

    _, got = await asyncio.gather(send(), reader.read(-1))
    writer.close()
    return got == data


async def many(host, port, count):
    """Do so many at once; count those that went well."""
    return sum(await asyncio.gather(*(ask(host, port) for _ in range(count))))


if sys.argv[1] == "serve":
    asyncio.run(serve(int(sys.argv[2])))
else:
    print(asyncio.run(many(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))), "echoed")
