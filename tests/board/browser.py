"""A headless Chromium, driven over its DevTools protocol."""

import base64
import json
import subprocess
import tempfile
from pathlib import Path

import websocket

from tap import until


class Browser:
    """One window. Records the messages, exceptions and requests of the page."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="xqueue-board-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={self.folder.name}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.connect()
        except BaseException:
            self.process.kill()
            raise

    def connect(self):
        port_file = Path(self.folder.name, "DevToolsActivePort")
        until(lambda: port_file.exists() and port_file.read_text().count("\n") > 0, "chromium starts")
        port, path = port_file.read_text().split("\n")[:2]
        self.socket = websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=30)
        self.last_id, self.session = 0, None
        self.problems, self.requests = [], []
        target = self.call("Target.getTargets")["targetInfos"]
        page = next(info for info in target if info["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.last_id:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.note(answer)

    def note(self, event):
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.problems.append(params["exceptionDetails"])
            case "Runtime.consoleAPICalled" if params["type"] == "error":
                self.problems.append(params["args"])
            case "Log.entryAdded" if params["entry"]["source"] == "security":
                self.problems.append(params["entry"])
            case "Page.javascriptDialogOpening":
                self.problems.append(f"a dialog: {params['message']}")
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def evaluate(self, expression):
        """Returns the value of a JavaScript expression in the page. A promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def size(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **text)

    def screenshot(self, file):
        """Takes a screenshot of the whole page, including the part below the window."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        Path(file).write_bytes(base64.b64decode(answer["data"]))

    def close(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()
