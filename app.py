"""Start the lab in the browser: `python app.py [--host H] [--port P]`."""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
if os.environ.get("SPACES_ZERO_GPU"):
    import spaces  # noqa: F401  (must come before torch)

from speclab.models.catalogue import on_space
from speclab.ui.backend import default_lab
from speclab.ui.custom import is_loopback
from speclab.ui.pages import build, launch_options


def arguments() -> argparse.Namespace:
    """Read the command line; the environment gives the defaults."""
    parser = argparse.ArgumentParser(description=__doc__)
    port = os.environ.get("PORT") or os.environ.get("GRADIO_SERVER_PORT") or 7860
    host = os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    parser.add_argument("--host", default=host, help="address to listen on")
    parser.add_argument("--port", type=int, default=int(port), help="port to listen on")
    parser.add_argument("--open", action="store_true", help="open the browser")
    parser.add_argument(
        "--allow-local",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="let visitors load models from folders of this machine (default: only while no other "
        "machine can reach the server)",
    )
    return parser.parse_args()


def local_allowed(wish: bool | None, host: str) -> bool:
    """Return whether visitors may name folders of this machine."""
    if on_space():
        return False
    shared = os.environ.get("GRADIO_SHARE", "").lower() == "true"
    return wish if wish is not None else is_loopback(host) and not shared


def main() -> None:
    """Build the lab and serve it until interrupted."""
    given = arguments()
    build(default_lab(allow_local=local_allowed(given.allow_local, given.host))).launch(
        server_name=given.host, server_port=given.port, inbrowser=given.open, **launch_options()
    )


if __name__ == "__main__":
    main()
