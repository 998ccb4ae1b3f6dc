// A fit that is running: asks its server how far it is, and turns into the report when it has ended.

import "./live.css";
import { FAINT, onDark, seriesColor, shade } from "./colors.js";
import { make, setText } from "./dom.js";
import { rangeOf } from "./lines.js";
import { FAMILY, optionsOf, uPlot } from "./plot.js";
import { logTicks, numberText, ticks } from "./ticks.js";

const PAUSE = 1000, LONGEST_PAUSE = 30000; // ms
const SILENCE = 15; // s without news that are worth a word

export function startLive(parent) {
    const view = new View(parent);
    let failures = 0, answers = 0;

    const ask = async () => {
        let wait = PAUSE;
        try {
            const response = await fetch(parent.dataset.url,
                { cache: "no-store", signal: AbortSignal.timeout(10000) });
            if (!response.ok) throw new Error(`status ${response.status}`);
            const news = await response.json();
            failures = 0;
            view.show(news);
            if (news.state === "done" || news.state === "stopped") {
                // The report is there now. Were it not, a page should not load itself all the time.
                setTimeout(() => location.reload(), answers === 0 ? 3000 : 0);
                return;
            }
            answers++;
            if (news.state === "failed") wait = 5 * PAUSE; // it may be started again
        } catch {
            wait = Math.min(PAUSE * 2 ** failures++, LONGEST_PAUSE);
            view.lose(wait / 1000);
        }
        setTimeout(ask, wait);
    };
    ask();
    return view;
}

class View {
    constructor(parent) {
        this.title = make("h2");
        this.phase = make("p", { className: "live-phase" });
        this.bar = make("progress", { max: 1, "aria-label": "progress" });
        this.numbers = make("p", { className: "live-numbers" });
        this.word = make("p", { className: "live-word", role: "status" });
        this.frame = make("div", { className: "live-plot", role: "img", "aria-label": "loss over seconds" });
        parent.classList.add("live");
        parent.replaceChildren(this.title, this.phase, this.bar, this.numbers, this.word, this.frame);
        onDark(() => this.plot?.redraw(false));
        new ResizeObserver(() => this.plot?.setSize(this.size())).observe(this.frame);
    }

    show(news) {
        const { state, phase, number, count, iteration, iterations, loss, seconds } = news;
        setText(this.title, news.title ?? "");
        this.title.hidden = !news.title || document.querySelector("h1")?.textContent === news.title;
        setText(this.phase, phase === null ? "The fit begins." : `phase ${number + 1} of ${count}: ${phase}`);
        const part = iterations > 0 ? Math.min(iteration / iterations, 1) : 0;
        this.bar.value = state === "done" ? 1 : count > 0 ? Math.min((number + part) / count, 1) : 0;
        const facts = [`iteration ${iteration} of ${iterations}`, duration(seconds)];
        if (Number.isFinite(loss)) facts.splice(1, 0, `loss ${loss.toPrecision(5)}`);
        setText(this.numbers, phase === null ? "" : facts.join(" \u00b7 "));
        this.say(wordOf(news), state === "failed" || (state === "running" && news.age > SILENCE));
        this.draw(news.history);
    }

    lose(wait) {
        this.say(`The server does not answer; asking again in ${wait} s.`, true);
    }

    say(text, bad) {
        setText(this.word, text);
        this.word.classList.toggle("bad", bad);
    }

    // ---- loss --------------------------------------------------------------------------------

    // Decimal logarithms, with a gap between phases: their losses may be of other data.
    draw(history) {
        const x = [], y = [];
        this.marks = [];
        for (const [seconds, loss, phase] of history) {
            if (phase !== this.marks.at(-1)?.phase) {
                this.marks.push({ seconds, phase });
                if (x.length > 0) add(x, y, seconds, NaN);
            }
            add(x, y, seconds, loss > 0 ? Math.log10(loss) : NaN);
        }
        this.frame.hidden = x.length < 2;
        if (this.frame.hidden) return;
        this.data = [x, y];
        if (this.plot) this.plot.setData(this.data);
        else this.plot = new uPlot(this.options(), this.data, this.frame);
    }

    // For tests, what is drawn: [[seconds, loss]].
    points() {
        const [x, y] = this.plot?.data ?? [[], []];
        return [...x].map((seconds, k) => [seconds, 10 ** y[k]]).filter(([, loss]) => loss > 0);
    }

    options() {
        return optionsOf({
            ...this.size(),
            top: 18,
            curves: [{ color: seriesColor(0) }],
            x: {
                range: () => [this.data[0][0], Math.max(this.data[0].at(-1), this.data[0][0] + 1e-3)],
                ticks: (low, high, pixels) => ticks(low, high, pixels / 90),
                text: numberText,
                label: "seconds",
            },
            ys: { y: {
                range: () => {
                    const y = this.data[1];
                    const [low, high] = rangeOf([{ y }], { first: 0, last: y.length - 1 });
                    const widen = Math.max(0, 0.4 - (high - low)) / 2; // so that there is a tick
                    return [low - widen, high + widen];
                },
                ticks: logTicks,
                text: (value) => String(Number((10 ** value).toPrecision(1))).replace("e+", "e"),
                label: "loss",
            } },
            hooks: { drawAxes: [(u) => this.drawMarks(u)] },
        });
    }

    drawMarks(u) {
        const { ctx } = u, { left, top, width, height } = u.bbox, ratio = uPlot.pxRatio;
        ctx.save();
        ctx.font = `${11 * ratio}px ${FAMILY}`;
        ctx.fillStyle = ctx.strokeStyle = shade(FAINT);
        ctx.setLineDash([3 * ratio, 3 * ratio]);
        ctx.textBaseline = "bottom";
        ctx.textAlign = "left";
        let free = -Infinity; // where a number does not cover the last
        for (const { seconds, phase } of this.marks) {
            const x = u.valToPos(seconds, "x", true), text = `phase ${phase + 1}`;
            ctx.beginPath();
            ctx.moveTo(x, top - 14 * ratio);
            ctx.lineTo(x, top + height);
            ctx.stroke();
            const room = ctx.measureText(text).width + 8 * ratio;
            const begin = x + room > left + width ? x - room : x;
            if (begin < free) continue;
            ctx.fillText(text, begin + 4 * ratio, top - 2 * ratio);
            free = begin + room;
        }
        ctx.restore();
    }

    size() {
        return { width: Math.max(this.frame.clientWidth, 200), height: 240 };
    }
}

function wordOf({ state, age, message }) {
    if (state === "done") return "Done; the report follows.";
    if (state === "failed") return message ? `Failed: ${message}` : "Failed.";
    if (state === "stopped") return "Stopped; the report of what was found follows.";
    if (age > SILENCE) return `No news for ${duration(age)}: is the fit still running?`;
    return "";
}

function duration(seconds) {
    const s = Math.round(seconds), minutes = Math.floor(s / 60);
    if (s < 60) return `${s}\u00a0s`;
    if (minutes < 60) return `${minutes}\u00a0min\u00a0${s % 60}\u00a0s`;
    return `${Math.floor(minutes / 60)}\u00a0h\u00a0${minutes % 60}\u00a0min`;
}

function add(x, y, seconds, value) {
    x.push(seconds);
    y.push(value);
}
