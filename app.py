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

FETCH = "have this machine ask any address for metrics, its own network included"
ALLOWED = {"allow-local": "load models from folders of this machine", "allow-fetch": FETCH}


def arguments() -> argparse.Namespace:
    """Read the command line; the environment gives the defaults."""
    parser = argparse.ArgumentParser(description=__doc__)
    port = os.environ.get("PORT") or os.environ.get("GRADIO_SERVER_PORT") or 7860
    host = os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    parser.add_argument("--host", default=host, help="address to listen on")
    parser.add_argument("--port", type=int, default=int(port), help="port to listen on")
    parser.add_argument("--open", action="store_true", help="open the browser")
    for name, what in ALLOWED.items():
        about = f"let visitors {what} (default: on loopback only; behind a proxy say --no-{name})"
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, help=about)
    return parser.parse_args()


def local_allowed(wish: bool | None, host: str) -> bool:
    """Return whether visitors may use what is meant for the owner: folders, or asking addresses."""
    if on_space() or wish is not None:
        return bool(wish) and not on_space()
    return is_loopback(host) and os.environ.get("GRADIO_SHARE", "").lower() != "true"


def main() -> None:
    """Build the lab and serve it until interrupted."""
    given = arguments()
    local, fetch = (local_allowed(w, given.host) for w in (given.allow_local, given.allow_fetch))
    page = build(default_lab(allow_local=local, allow_fetch=fetch))
    options = {"server_name": given.host, "server_port": given.port, "inbrowser": given.open}
    try:
        page.launch(**options, **launch_options())
    except OSError as error:
        if "port" not in str(error):
            raise
        raise SystemExit(
            f"Port {given.port} of {given.host} is taken.\nTry: --port {given.port + 1}"
        ) from None


if __name__ == "__main__":
    main()
