// Stretches of data that a fit was trained or tested on, behind curves.

import { FAINT, INK, shade } from "./colors.js";
import { FAMILY, uPlot } from "./plot.js";

const SHADES = { test: 0.07, validation: 0.035 };

// Neighbours of one role are one span; "changes" where the role before was another.
export function joinSpans(spans) {
    const joined = [];
    for (const { from, to, role } of [...spans].sort((a, b) => a.from - b.from)) {
        const last = joined.at(-1);
        if (last?.role === role) last.to = Math.max(last.to, to);
        else joined.push({ from, to, role, shade: SHADES[role] ?? 0, changes: joined.length > 0 });
    }
    return joined;
}

export function drawSpans(u, spans) {
    const { ctx } = u, { left, top, width, height } = u.bbox, ratio = uPlot.pxRatio;
    ctx.save();
    ctx.font = `${11 * ratio}px ${FAMILY}`;
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    ctx.lineWidth = ratio;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.strokeStyle = shade(FAINT);
    for (const { from, to, role, shade: alpha, changes } of spans) {
        const start = Math.max(u.valToPos(from, "x", true), left);
        const end = Math.min(u.valToPos(to, "x", true), left + width), room = end - start;
        if (room <= 0) continue;
        ctx.fillStyle = shade(INK);
        ctx.globalAlpha = alpha;
        ctx.fillRect(start, top, room, height);
        ctx.globalAlpha = 1;
        ctx.fillStyle = shade(FAINT);
        const space = 4 * ratio;
        if (ctx.measureText(role).width + 2 * space < room) ctx.fillText(role, start + space, top - 2 * ratio);
        if (!changes || start <= left) continue;
        ctx.beginPath();
        ctx.moveTo(start, top - 14 * ratio);
        ctx.lineTo(start, top + height);
        ctx.stroke();
    }
    ctx.restore();
}
