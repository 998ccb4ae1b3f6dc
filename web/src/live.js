// A fit that is running: asks its server how far it is.

import "./live.css";
import { element, setText } from "./dom.js";
import { family, logTicks, numberText, onPalette, optionsOf, palette, rangeOf, ticks, uPlot }
    from "./plot.js";

const pause = 1000, longestPause = 30000; // ms
const silence = 15; // s without news that are worth a word

export function startLive(parent) {
    const view = new View(parent);
    let failures = 0, answers = 0;

    const ask = async () => {
        let wait = pause;
        try {
            const response = await fetch(parent.dataset.url,
                { cache: "no-store", signal: AbortSignal.timeout(10000) });
            if (!response.ok) throw new Error(`status ${response.status}`);
            const news = await response.json();
            failures = 0;
            view.show(news);
            if (news.state === "done") {
                // The report is there now. Were it not, a page should not load itself all the time.
                setTimeout(() => location.reload(), answers === 0 ? 3000 : 0);
                return;
            }
            answers++;
            if (news.state !== "running") wait = 5 * pause; // it may be continued
        } catch {
            wait = Math.min(pause * 2 ** failures++, longestPause);
            view.lose(wait / 1000);
        }
        setTimeout(ask, wait);
    };
    ask();
}

class View {
    constructor(parent) {
        this.title = element("h2");
        this.phase = element("p", "live-phase");
        this.bar = element("progress");
        this.bar.max = 1;
        this.bar.setAttribute("aria-label", "progress");
        this.numbers = element("p", "live-numbers");
        this.word = element("p", "live-word");
        this.word.setAttribute("role", "status");
        this.frame = element("div", "live-plot");
        this.frame.setAttribute("role", "img");
        this.frame.setAttribute("aria-label", "loss over seconds");
        parent.classList.add("live");
        parent.replaceChildren(this.title, this.phase, this.bar, this.numbers, this.word, this.frame);
        onPalette(() => this.plot?.redraw(false));
        new ResizeObserver(() => this.plot?.setSize(this.size())).observe(this.frame);
    }

    show(news) {
        const { state, number, count, iteration, iterations, loss, seconds } = news;
        setText(this.title, news.title ?? "");
        this.title.hidden = document.querySelector("h1")?.textContent === news.title;
        setText(this.phase, `${number} of ${count}: ${news.phase}`);
        const part = iterations > 0 ? Math.min(iteration / iterations, 1) : 0;
        this.bar.value = state === "done" ? 1 : count > 0 ? Math.max(number - 1 + part, 0) / count : 0;
        const facts = [`iteration ${iteration} of ${iterations}`, duration(seconds)];
        if (Number.isFinite(loss)) facts.splice(1, 0, `loss ${loss.toPrecision(5)}`);
        setText(this.numbers, facts.join(" \u00b7 "));
        this.say(wordOf(news), state === "failed" || (state === "running" && news.age > silence));
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
        this.data = [x, y];
        this.frame.hidden = x.length < 2;
        if (this.frame.hidden) return;
        if (this.plot) this.plot.setData(this.data);
        else this.plot = new uPlot(this.options(), this.data, this.frame);
    }

    options() {
        return optionsOf({
            ...this.size(),
            top: 18,
            curves: [{ colour: 0 }],
            x: {
                range: () => [this.data[0][0], Math.max(this.data[0].at(-1), this.data[0][0] + 1e-3)],
                ticks: (low, high, pixels) => ticks(low, high, pixels / 90),
                text: numberText,
                label: "seconds",
            },
            y: {
                range: () => {
                    const y = this.data[1];
                    const [low, high] = rangeOf([y], { first: 0, last: y.length - 1 });
                    const widen = Math.max(0, 0.4 - (high - low)) / 2; // so that there is a tick
                    return [low - widen, high + widen];
                },
                ticks: logTicks,
                text: (value) => String(Number((10 ** value).toPrecision(1))).replace("e+", "e"),
                label: "loss",
            },
            hooks: { drawAxes: [(u) => this.drawMarks(u)] },
        });
    }

    drawMarks(u) {
        const { ctx } = u, { left, top, width, height } = u.bbox, ratio = uPlot.pxRatio;
        ctx.save();
        ctx.font = `${11 * ratio}px ${family}`;
        ctx.fillStyle = ctx.strokeStyle = palette().faint;
        ctx.setLineDash([3 * ratio, 3 * ratio]);
        ctx.textBaseline = "bottom";
        ctx.textAlign = "left";
        let free = -Infinity; // where a number does not cover the last
        for (const { seconds, phase } of this.marks) {
            const x = u.valToPos(seconds, "x", true), text = `phase ${phase}`;
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
    if (state === "stopped") return message ? `Stopped: ${message}` : "Stopped.";
    if (age > silence) return `no news for ${Math.round(age)} s: is the fit still running?`;
    return message ?? "";
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
