// What 3D and curves share: where time stands, how fast it goes, which stretch is played, and which tracks are
// hidden.
//
// Events: "time" (it moved), "state" (playing, speed or loop changed), "range" (the stretch changed),
// "tracks" (some are hidden or shown), "episode" (another one was chosen: everything may have changed).

export const NUMBERS = 60; // ms between two numbers that are shown while playing

export class Timeline extends EventTarget {
    constructor(payload) {
        super();
        this.payload = payload;
        this.playing = false;
        this.speed = 1;
        this.loop = true;
        this.hidden = new Set(); // names of tracks: those of the next episode may be the same
        this.choose(0);
    }

    // The first row at which all motions can be seen, if there is one.
    #firstShown() {
        const columns = this.episode.tracks.filter(({ poses }) => poses !== null)
            .map(({ poses }) => this.column(poses));
        const row = this.times.findIndex((_, k) => columns.every((column) => !Number.isNaN(column?.[k])));
        return Math.max(row, 0);
    }

    // The numbers of a column, or null.
    column(number) {
        return number === null || number === undefined ? null : this.payload.columns[number];
    }

    choose(number) {
        this.number = number;
        this.episode = this.payload.episodes[number];
        this.times = this.column(this.episode.time);
        this.first = this.times[0];
        this.last = this.times[this.times.length - 1];
        this.from = this.first;
        this.to = this.last;
        this.time = this.times[this.#firstShown()];
        this.playing &&= this.canPlay;
        this.tell("episode");
    }

    // The row at or before the time, and how far it is to the next, 0 to 1.
    place(time = this.time) {
        const t = this.times;
        let low = 0, high = t.length - 1;
        while (low < high) {
            const middle = (low + high + 1) >> 1;
            if (t[middle] <= time) low = middle;
            else high = middle - 1;
        }
        const gap = low + 1 < t.length ? t[low + 1] - t[low] : 0;
        return { row: low, share: gap > 0 ? Math.min(Math.max((time - t[low]) / gap, 0), 1) : 0 };
    }

    set(time) {
        this.time = Math.min(Math.max(time, this.first), this.last);
        this.tell("time");
    }

    // Play from here to there only; all of it when called without.
    setRange(from = this.first, to = this.last) {
        this.from = Math.max(Math.min(from, to), this.first);
        this.to = Math.min(Math.max(from, to), this.last);
        this.tell("range");
        if (this.time < this.from || this.time > this.to) this.set(this.from);
    }

    // Is there a stretch to play, or one row only?
    get canPlay() {
        return this.to > this.from;
    }

    setPlaying(playing) {
        if (playing && this.time >= this.to) this.set(this.from);
        this.playing = playing && this.canPlay;
        this.tell("state");
    }

    setSpeed(speed) {
        this.speed = speed;
        this.tell("state");
    }

    setLoop(loop) {
        this.loop = loop;
        this.tell("state");
    }

    isHidden(track) {
        return this.episode.tracks.length > 1 && this.hidden.has(track.name);
    }

    setHidden(track, hidden) {
        if (hidden) this.hidden.add(track.name);
        else this.hidden.delete(track.name);
        this.tell("tracks");
    }

    // Go on by seconds of the clock on the wall.
    advance(seconds) {
        if (!this.playing) return;
        let time = this.time + seconds * this.speed;
        if (time > this.to && this.loop) time = this.from;
        if (time > this.to) {
            this.playing = false;
            this.set(this.to);
            this.tell("state");
        } else {
            this.set(time);
        }
    }

    tell(what) {
        this.dispatchEvent(new Event(what));
    }
}
