"""A stand-in for the API server of Kubernetes: discovery, and objects to read. Enough for Helm's
`lookup`, which a chart's rendering uses to see what is there already."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RESOURCES = {"secrets": "Secret", "configmaps": "ConfigMap"}


class _Handler(BaseHTTPRequestHandler):
    objects: dict[str, Any]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        answer = self.answer(path)
        status = 200
        if answer is None:
            status = 404
            answer = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, path: str) -> Any:
        if path == "/version":
            return {"major": "1", "minor": "31", "gitVersion": "v1.31.0"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
        if path == "/api/v1":
            kinds = [
                {"name": name, "kind": kind, "namespaced": True, "singularName": "", "verbs": ["get", "list"]}
                for name, kind in RESOURCES.items()
            ]
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": kinds}
        return self.objects.get(path)

    def log_message(self, *_: object) -> None:
        """No line for each request."""


@contextmanager
def serve(*objects: dict[str, Any]) -> Iterator[str]:
    """Serves these objects; gives the URL."""
    plural = {kind: name for name, kind in RESOURCES.items()}
    paths = {
        f"/api/v1/namespaces/{item['metadata']['namespace']}/{plural[item['kind']]}/{item['metadata']['name']}": item
        for item in objects
    }
    handler = type("Handler", (_Handler,), {"objects": paths})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
