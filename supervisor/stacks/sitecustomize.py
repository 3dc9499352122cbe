"""Registers Python's faulthandler, of which lockstep-run asks for the stacks of a program, and runs the sitecustomize that this one hides."""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_SIGNAL = 50  # stacks.Signal


def _register():
    import faulthandler

    stacks = open(os.path.join(_FOLDER, str(os.getpid())), "wb", buffering=0)
    faulthandler.register(_SIGNAL, file=stacks, all_threads=True)


def _hand_over():
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _FOLDER]
    own = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ModuleNotFoundError as missing:
        sys.modules["sitecustomize"] = own
        if missing.name != "sitecustomize":
            raise


try:
    _register()
except Exception:  # a program runs without it
    pass
_hand_over()
