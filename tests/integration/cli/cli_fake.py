#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon that is none: answers every control request with what it is told, or never.

usage: cli_fake.py DIR silent|close|text TEXT|names
"""
import json
import os
import socket
import sys

EVIL = "evil\u001b[31m\u009b31m\nred"


def names():
    """A ps reply with names that would steer a terminal, and one too long for it."""
    group = {
        "user": "u", "hints": {"priority": 7}, "suspended": False, "governed": 999999, "ungoverned": 3, "undivided": 4,
        "devices": [
            {"state": "idle", "device_ms": 1500, "wait_ms": 0.25, "preemptions": 3},
            {"state": "ready", "device_ms": 3600000, "wait_ms": 0, "preemptions": 4},
        ],
        "calls": [{"call": EVIL, "ungoverned": 1, "undivided": 4}],
        "queues": [{"id": "q1", "level": 1, "levels": [1, 2]}, {"id": "q2", "level": 2, "levels": [1, 2]}],
    }
    other = dict(group, devices=[], queues=[], calls=[], governed=5, ungoverned=0, suspended=True, user="ümlaut")
    return {"ok": True, "groups": [dict(other, name="x" * 300), dict(group, name=EVIL)], "devices": []}


def main():
    folder, mode = sys.argv[1:3]
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(os.path.join(folder, "control.sock"))
    server.listen(8)
    print("ready", flush=True)
    kept = []
    while True:
        peer, _ = server.accept()
        if mode == "silent":
            kept.append(peer)
            continue
        peer.makefile().readline()
        if mode == "text":
            peer.sendall(sys.argv[3].encode() + b"\n")
        elif mode == "names":
            peer.sendall(json.dumps(names()).encode() + b"\n")
        peer.close()


main()
