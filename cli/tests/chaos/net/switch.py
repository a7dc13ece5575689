#!/usr/bin/env python3
"""Hosts of their own on one machine, and between them a switch that can be told to do harm.

usage: switch.py NETWORK COUNT

Makes network namespaces, with the addresses NETWORK.1 and so on, and gives the namespace that it runs in
NETWORK.254 and a loopback device. None of them has a name: they are held by open files of this process and
by whatever runs in them, and are gone with both. Every frame goes through this process. It prints `ready`
and the files by which the namespaces are entered. Commands come on standard input, each is answered by a line:

    link FROM TO cut=1 delay_ms=20 jitter_ms=10 loss=0.1 repeat=0.05     what happens in one direction
    heal                                                                all of that ends

Hosts are numbered, 0 is this namespace. It ends when its input does.
"""

import ctypes
import fcntl
import heapq
import os
import random
import selectors
import struct
import subprocess
import sys
import time

FRAME_BYTES_MAX = 16_384
# From linux/if_tun.h.
SET_INTERFACE = 0x400454CA
ETHERNET_WITHOUT_HEADER = 0x0002 | 0x1000
# From linux/sched.h.
NEW_NETWORK = 0x40000000

LIBC = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Link:
    """One direction between two hosts."""

    def __init__(self):
        self.cut = self.loss = self.repeat = self.delay_ms = self.jitter_ms = 0.0

    def times(self):
        """When a frame that comes now arrives: nothing if it never does."""
        if self.cut or random.random() < self.loss:
            return []
        copies = 2 if random.random() < self.repeat else 1
        return [(self.delay_ms + random.random() * self.jitter_ms) / 1000 for _ in range(copies)]


class Switch:
    def __init__(self, network, count):
        self.network, self.count = network, count
        self.ports = []
        self.namespaces = []
        self.hosts = {}
        self.links = {}
        self.waiting = []
        self.number = 0

    def build(self):
        outside = os.open("/proc/self/ns/net", os.O_RDONLY)
        for host in range(self.count + 1):
            if host:
                check(LIBC.unshare(NEW_NETWORK), "unshare")
                self.namespaces.append(os.open("/proc/self/ns/net", os.O_RDONLY))
            self.add(host)
        check(LIBC.setns(outside, NEW_NETWORK), "setns")
        self.heal()

    def add(self, host):
        """Gives the present namespace a device whose other end is a port of the switch."""
        device = f"port{host}"
        port = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(port, SET_INTERFACE, struct.pack("16sH22x", device.encode(), ETHERNET_WITHOUT_HEADER))
        mac = bytes([2, 0x68, 0x66, 0, 0, host])
        text = ":".join(f"{byte:02x}" for byte in mac)
        ip("link", "set", "lo", "up")
        ip("link", "set", device, "address", text, "mtu", "8900", "up")
        ip("address", "add", f"{self.network}.{host or 254}/24", "dev", device)
        self.hosts[mac] = host
        self.ports.append(port)

    def files(self):
        return " ".join(f"/proc/{os.getpid()}/fd/{file}" for file in self.namespaces)

    def heal(self):
        hosts = range(self.count + 1)
        self.links = {(a, b): Link() for a in hosts for b in hosts if a != b}

    def command(self, line):
        words = line.split()
        if words == ["heal"]:
            self.heal()
            return
        if len(words) < 4 or words[0] != "link":
            raise ValueError(f"what is {line!r}?")
        link = self.links[int(words[1]), int(words[2])]
        for setting in words[3:]:
            key, value = setting.split("=")
            if not hasattr(link, key):
                raise ValueError(f"what is {key!r}?")
            setattr(link, key, float(value))

    def take(self, source):
        try:
            frame = os.read(self.ports[source], FRAME_BYTES_MAX)
        except BlockingIOError:
            return False
        target = self.hosts.get(frame[:6])
        targets = [target] if target is not None else [host for host in self.hosts.values() if host != source]
        for host in targets:
            if host == source:
                continue
            for delay in self.links[source, host].times():
                if delay:
                    self.number += 1
                    heapq.heappush(self.waiting, (time.monotonic() + delay, self.number, host, frame))
                else:
                    self.give(host, frame)
        return True

    def give(self, host, frame):
        try:
            os.write(self.ports[host], frame)
        except OSError:
            pass  # Its queue is full: a frame is lost, as on any switch.

    def run(self):
        ready = selectors.DefaultSelector()
        for host, port in enumerate(self.ports):
            ready.register(port, selectors.EVENT_READ, host)
        os.set_blocking(0, False)
        ready.register(0, selectors.EVENT_READ, None)
        rest = b""
        while True:
            pause = max(0, self.waiting[0][0] - time.monotonic()) if self.waiting else None
            for key, _ in ready.select(pause):
                if key.data is not None:
                    for _ in range(128):
                        if not self.take(key.data):
                            break
                    continue
                read = os.read(0, 4096)
                if not read:
                    return
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    self.command(line.decode())
                    print("done", flush=True)
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, _, host, frame = heapq.heappop(self.waiting)
                self.give(host, frame)


def main():
    switch = Switch(sys.argv[1], int(sys.argv[2]))
    switch.build()
    print("ready", switch.files(), flush=True)
    switch.run()


main()
