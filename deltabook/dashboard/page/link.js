// The socket: requests a frame, passes it on to be drawn, and then requests the next one. A page that the browser does
// not draw, such as one in a hidden tab, requests nothing.

const RETRY_MS = [500, 1000, 2000, 4000, 8000];
const SILENCE_MS = 6000;
const TOKEN_REFUSED = 4401;
const RATE_MS = 2000;

export class Link {
  // begin() forgets earlier frames; ask() returns a request; draw(frame) draws the answer; state(name, words) is called
  // with the state of the connection.
  constructor({ ask, draw, state, begin }) {
    Object.assign(this, { ask, draw, state, begin });
    this.failures = 0;
    this.turn = 0;
    this.marks = [];
    this.token = "";
  }

  open() {
    const turn = ++this.turn;
    clearTimeout(this.timer);
    this.socket?.close();
    this.begin();
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.socket = new WebSocket(`${scheme}//${location.host}/v1/frames`));
    this.watch();
    let isFirst = true;
    const next = () => {
      if (turn !== this.turn || socket.readyState !== WebSocket.OPEN) return;
      const request = isFirst && this.token ? { ...this.ask(), token: this.token } : this.ask();
      isFirst = false;
      socket.send(JSON.stringify(request));
      this.watch();
    };
    this.again = next;
    socket.addEventListener("open", next);
    socket.addEventListener("message", (event) => {
      if (turn !== this.turn) return;
      clearTimeout(this.watchdog);
      requestAnimationFrame(() => {
        if (turn !== this.turn) return;
        this.failures = 0;
        this.state("live");
        this.draw(JSON.parse(event.data));
        this.count(event.data.length);
        next();
      });
    });
    socket.addEventListener("close", (event) => {
      if (turn !== this.turn) return;
      clearTimeout(this.watchdog);
      if (event.code === TOKEN_REFUSED) {
        this.state("token", event.reason);
        return;
      }
      this.state("lost", event.reason);
      this.timer = setTimeout(() => this.open(), RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)]);
    });
  }

  // Close the socket when no answer has come for some time.
  watch() {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => {
      if (!document.hidden) this.socket.close();
    }, SILENCE_MS);
  }

  count(bytes) {
    const now = performance.now();
    this.marks.push([now, bytes]);
    while (this.marks.length > 2 && this.marks[1][0] < now - RATE_MS) this.marks.shift();
  }

  // Return frames and bytes per second over the last two seconds; null before two frames have come.
  rate() {
    if (this.marks.length < 2) return null;
    const seconds = (this.marks.at(-1)[0] - this.marks[0][0]) / 1000;
    if (seconds <= 0) return null;
    const bytes = this.marks.slice(1).reduce((sum, mark) => sum + mark[1], 0);
    return { frames: (this.marks.length - 1) / seconds, bytes: bytes / seconds };
  }
}
