"""Runs work as an account that may not do everything."""

import os
import pickle
import pwd
import traceback
import warnings
from collections.abc import Callable

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives PostgreSQL another account")

ORDINARY = pwd.getpwnam("nobody")


def in_a_process(work: Callable[[], object], *, ordinary: bool) -> object:
    """Run ``work`` in a process of its own, as an ordinary user if asked; return its result or raise its error.

    It is forked, not started: an ordinary user might not reach root's Python.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads; the child starts none
        child = os.fork()
    if child == 0:
        os.close(read)
        try:
            if ordinary and os.geteuid() == 0:
                os.setgroups([])
                os.setgid(ORDINARY.pw_gid)
                os.setuid(ORDINARY.pw_uid)
            answer = pickle.dumps(work())
        except Exception as error:  # noqa: BLE001 - carried over to the test
            traceback.print_exc()
            answer = pickle.dumps(error)
        with os.fdopen(write, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    if isinstance(answer, Exception):
        raise answer
    return answer
