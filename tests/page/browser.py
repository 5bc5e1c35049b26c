"""A headless Chromium under chromedriver, spoken to by WebDriver over HTTP. Standard library only.

Everything the page logs to its console and every request it makes is recorded by Chromium itself (the performance log), so
tests can ask for both.
"""
import base64
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time

from ports import free_port

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # WebDriver's name for an element's reference
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Up": "\ue013", "Shift": "\ue008", "Control": "\ue009", "Space": " "}
COMMAND_SECONDS = 120
PATIENCE_SECONDS = 60


def missing():
    """What is not installed here, or an empty string."""
    names = [("chromium", ("chromium", "chromium-browser", "google-chrome")), ("chromium-driver", ("chromedriver",))]
    return " and ".join(package for package, commands in names if not any(shutil.which(c) for c in commands))


class BrowserError(AssertionError):
    pass


class Browser:
    """One window. `with Browser() as b: b.open(url)`"""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="numoe-page.")
        self.port = free_port()
        self.log = open(os.path.join(self.folder, "chromedriver.log"), "w", encoding="utf-8")
        self.driver = subprocess.Popen([shutil.which("chromedriver"), f"--port={self.port}"], stdout=self.log, stderr=self.log)
        self.session = None
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise

    def _start(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self._send("GET", "/status")["ready"]:
                    break
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)
        binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
        answer = self._send("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": binary, "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
                "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4",  # a mouse
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={self.folder}/profile"],
                "prefs": {"download.default_directory": self.folder, "download.prompt_for_download": False}},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self.session = f"/session/{answer['sessionId']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.session:
            try:
                self._send("DELETE", self.session)
            except (OSError, BrowserError, http.client.HTTPException):
                pass  # it is ended below whatever it answers
        self.driver.terminate()
        self.driver.wait(20)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _send(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=COMMAND_SECONDS)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise BrowserError(f"{path}: {value['error']}: {value['message'][:600]}")
        return value

    def _do(self, path, body=None):
        return self._send("POST", self.session + path, body or {})

    # Pages.

    def open(self, url):
        self._do("/url", {"url": url})

    def reload(self):
        self._do("/refresh")

    def size(self, width, height, scale=1, touch=False):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=touch)
        self.cdp("Emulation.setTouchEmulationEnabled", enabled=touch)

    def media(self, **features):
        """media(prefers_color_scheme="dark")"""
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": k.replace("_", "-"), "value": v} for k, v in features.items()])

    def cdp(self, command, **params):
        return self._do("/goog/cdp/execute", {"cmd": command, "params": params})

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self._send("GET", self.session + "/screenshot")))

    # What is there, and what a person does with it.

    def run(self, script, *arguments):
        """The value of a function body, called with `arguments`; may be a promise."""
        return self._do("/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self._do("/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self._do(f"/element/{self.find(selector)}/click")

    def type(self, selector, text):
        self._do(f"/element/{self.find(selector)}/value", {"text": text})

    def upload(self, selector, path):
        self.type(selector, path)

    def press(self, *keys):
        """Keys or texts, one after the other; ("Control", "k") together when given as a tuple."""
        actions = []
        for key in keys:
            held = [KEYS.get(k, k) for k in key] if isinstance(key, tuple) else None
            if held:
                actions += [{"type": "keyDown", "value": k} for k in held] + [{"type": "keyUp", "value": k} for k in reversed(held)]
                continue
            for letter in ([KEYS[key]] if key in KEYS else key):
                actions += [{"type": "keyDown", "value": letter}, {"type": "keyUp", "value": letter}]
        self._do("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)", selector)

    def text(self, selector):
        found = self.texts(selector)
        if not found:
            raise BrowserError(f"nothing matches {selector}")
        return found[-1]

    def visible(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].some((e) => e.checkVisibility() && e.getClientRects().length > 0)",
                        selector)

    def wait(self, what, condition, seconds=PATIENCE_SECONDS):
        """Until `condition` (a script's text, or a function of Python) holds; returns its value."""
        deadline = time.monotonic() + seconds
        while True:
            value = condition() if callable(condition) else self.run(f"return {condition}")
            if value:
                return value
            if time.monotonic() > deadline:
                raise BrowserError(f"waited {seconds} s for {what}; the page shows:\n{self.text('body')[-1500:]}")
            time.sleep(0.02)

    # What happened meanwhile.

    def console(self):
        """Messages since the last call that are warnings or errors."""
        entries = self._do("/se/log", {"type": "browser"})
        return [e["message"] for e in entries if e["level"] in ("WARNING", "SEVERE")]

    def requests(self):
        """Addresses asked for since the last call."""
        messages = [json.loads(e["message"])["message"] for e in self._do("/se/log", {"type": "performance"})]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
