// The pointer on curves.

// Mouse: click goes there, drag selects a stretch, drag of the time line or along the axis scrubs.
// Touch: drag scrubs, two fingers zoom.
export function listenToPointer({ owner, plot, timeLine, selection }) {
    const { timeline } = owner, { over } = plot, axis = plot.root.querySelector(".u-axis");
    const fingers = new Map(); // pointer: time at which it is held
    let how = null, start = 0, box = null;
    const share = (event) => Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    const timeAt = (event) => {
        const [from, to] = owner.range;
        return from + share(event) * (to - from);
    };
    const measure = () => (box = over.getBoundingClientRect());
    const select = (from, to) => {
        selection.hidden = false;
        selection.style.left = `${Math.min(from, to) * 100}%`;
        selection.style.width = `${Math.abs(to - from) * 100}%`;
    };

    const down = (event) => {
        if (event.button !== 0) return;
        measure();
        event.currentTarget.setPointerCapture(event.pointerId);
        if (event.pointerType === "touch") {
            fingers.set(event.pointerId, { x: event.clientX, time: timeAt(event) });
            how = fingers.size > 1 ? "pinch" : "click"; // or a scroll of the page: wait for the move
            start = share(event);
            return;
        }
        how = event.target === timeLine.line || event.currentTarget === axis ? "scrub" : "click";
        start = share(event);
        if (how === "scrub") timeline.set(timeAt(event));
    };
    const move = (event) => {
        owner.aimed = owner.aimed || event.movementX !== 0 || event.movementY !== 0;
        if (fingers.has(event.pointerId)) fingers.get(event.pointerId).x = event.clientX;
        if (how === "click" && Math.abs(share(event) - start) * box.width > 4)
            how = event.pointerType === "touch" ? "scrub" : "select";
        if (how === "scrub") timeline.set(timeAt(event));
        else if (how === "select") select(start, share(event));
        else if (how === "pinch") pinch();
        measure();
        if (event.pointerType !== "touch") owner.setHover(how === "scrub" ? null : timeAt(event));
    };
    // The times under two fingers stay under them.
    const pinch = () => {
        const [a, b] = [...fingers.values()].sort((one, other) => one.time - other.time);
        if (!b || b.x - a.x < 10) return;
        const slope = (b.time - a.time) / (b.x - a.x);
        owner.zoom(a.time - (a.x - box.left) * slope, b.time + (box.right - b.x) * slope);
    };
    const up = (event) => {
        if (how === null) return;
        const [from, to] = owner.range;
        const times = [start, share(event)].map((k) => from + k * (to - from));
        fingers.delete(event.pointerId);
        if (how === "select") owner.zoom(Math.min(...times), Math.max(...times));
        else if (how === "click") timeline.set(timeAt(event));
        selection.hidden = true;
        how = fingers.size > 0 ? how : null;
    };
    const cancel = (event) => {
        fingers.delete(event.pointerId);
        selection.hidden = true;
        how = null;
    };
    for (const target of [over, axis]) {
        target.addEventListener("pointerdown", down);
        target.addEventListener("pointermove", move);
        target.addEventListener("pointerup", up);
        target.addEventListener("pointercancel", cancel);
        target.addEventListener("pointerleave", () => owner.setHover(null));
        target.addEventListener("dblclick", () => timeline.setRange());
    }

    over.addEventListener("wheel", (event) => {
        if (!owner.aimed && !event.ctrlKey) return;
        measure();
        const [from, to] = owner.range, unit = event.deltaMode === 0 ? 1 : 30;
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            const by = (event.deltaX * unit * (to - from)) / box.width;
            const shift = Math.min(Math.max(by, timeline.first - from), timeline.last - to);
            if (shift !== 0) timeline.setRange(from + shift, to + shift);
            event.preventDefault();
            return;
        }
        const whole = from <= timeline.first && to >= timeline.last;
        if (whole && event.deltaY > 0) return; // nothing left to show: let the page scroll
        const factor = Math.exp(event.deltaY * unit * 0.002), at = timeAt(event);
        owner.zoom(at - (at - from) * factor, at + (to - at) * factor);
        event.preventDefault();
    }, { passive: false });
}
