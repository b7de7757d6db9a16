// The trace player: steps through a recorded trace, and draws what each call changed.
//
// The page holds everything already: a listing of the calls, which can be read without this script, and beside it, as
// JSON, the state after each of them. `cargo workshop record` has worked both out of a recording. So nothing is
// computed here, and nothing is loaded: the player works from a file, without a network.
"use strict";

(() => {
    // How long a step stays when it plays by itself, in milliseconds: long enough to read a sentence.
    const PACE = 2200;

    // An element with attributes and children; text becomes a text node, so nothing is taken for HTML.
    function make(tag, attributes = {}, ...children) {
        const element = document.createElement(tag);
        for (const [name, value] of Object.entries(attributes)) {
            if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
        }
        element.append(...children.filter((child) => child !== null && child !== undefined));
        return element;
    }

    const grouped = (number) => number.toLocaleString("en-US");
    const bytes = (count) => (count === 1 ? "1 byte" : `${grouped(count)} bytes`);

    function panel(title, ...children) {
        return make("section", { class: "player-panel", "aria-label": title },
            make("p", { class: "player-panel-title" }, title), ...children);
    }

    function table(head, rows) {
        const cells = (tag, scope, values) => values.map((value) => make(tag, { scope }, value));
        return make("table", {},
            make("thead", {}, make("tr", {}, ...cells("th", "col", head))),
            make("tbody", {}, ...rows.map(({ cells: values, isNew }) =>
                make("tr", { class: isNew ? "is-new" : null }, ...cells("td", null, values)))));
    }

    // Marks a row that the step has changed.
    function isNew(row, rowsBefore) {
        if (!rowsBefore) return false;
        const before = rowsBefore.find((other) => other.fd === row.fd);
        return JSON.stringify(before) !== JSON.stringify(row);
    }

    // A bar: parts of a whole, from left to right.
    function bar(whole, parts) {
        const drawn = parts.filter(([, count]) => count > 0).map(([kind, count]) =>
            make("span", { class: `player-bar-${kind}`, style: `width: ${(100 * count) / whole}%` }));
        return make("span", { class: "player-bar", "aria-hidden": "true" }, ...drawn);
    }

    function descriptors(view, before, most) {
        const rows = view.fds.map((row) => {
            const waits = [];
            if (row.holds) waits.push(row.holds);
            if (row.unread !== undefined) waits.push(row.unread === 0 ? "nothing unread" : `${bytes(row.unread)} unread`);
            if (row.reset) waits.push("reset");
            else if (row.ends) waits.push(row.unread > 0 ? "then the end of the stream" : "at the end of the stream");
            const cell = make("span", {}, waits.join(", "));
            if (row.unread > 0) cell.append(bar(most, [["unread", row.unread]]));
            const name = make("span", {}, row.name);
            if (row.peer && row.peer !== `client${row.name.slice(4)}`) name.append(` (${row.peer})`);
            if (row.phase) name.append(" ", make("strong", { class: "player-phase" }, row.phase));
            return { cells: [String(row.fd), name, cell], isNew: isNew(row, before && before.fds) };
        });
        return panel(view.title || "Open sockets", rows.length > 0 ? table(["fd", "what", "waits in the kernel"], rows)
            : make("p", {}, "None."));
    }

    // Both rows of bits: what was asked, and what came back in the same place.
    function select(set) {
        const numbers = Array.from({ length: set.nfds }, (_, fd) => fd);
        const bit = (members, fd) => (members.includes(fd) ? "1" : "0");
        const row = (name, members, mark) => make("tr", {}, make("th", { scope: "row" }, name),
            ...numbers.map((fd) => make("td", { class: mark(fd) }, bit(members, fd))));
        const asked = (fd) => (set.asked.includes(fd) ? "is-set" : null);
        const answer = (fd) => (set.answered.includes(fd) ? "is-set" : asked(fd) && "is-cleared");
        return panel(`The last select: fd_set, nfds = ${set.nfds}`,
            make("table", { class: "player-bits" },
                make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "fd"),
                    ...numbers.map((fd) => make("th", { scope: "col" }, String(fd))))),
                make("tbody", {}, row("asked", set.asked, asked), row("answer", set.answered, answer))));
    }

    function poll(entries) {
        const rows = entries.map((entry) => ({ cells: [String(entry.fd), entry.events, entry.revents] }));
        return panel("The last poll: pollfd array", table(["fd", "events", "revents"], rows));
    }

    function epoll(instance, before) {
        const list = (title, entries, kind, entriesBefore, nothing) => make("div", { class: `player-list player-${kind}` },
            make("p", { class: "player-list-title" }, title),
            entries.length === 0 ? make("p", { class: "player-nothing" }, nothing)
                : make("ul", {}, ...entries.map((entry) =>
                    make("li", { class: isNew(entry, entriesBefore) ? "is-new" : null },
                        make("strong", {}, `${entry.fd} ${entry.name || ""}`), " ",
                        (entry.mask || entry.flags).split("|").join(" | ")))));
        return panel(`epoll instance ${instance.fd}`, make("div", { class: "player-lists" },
            list("Interest list", instance.interest, "interest", before && before.interest, "nothing is watched"),
            list("Ready list", instance.ready, "ready", before && before.ready, "nobody is ready")));
    }

    function reply(row) {
        const parts = [["received", "received by the client"], ["kernel", "in the kernel"], ["waiting", "in the output buffer"]];
        return panel(`The reply of ${row.name}: ${bytes(row.total)}`,
            bar(row.total, parts.map(([kind]) => [kind, row[kind]])),
            make("ul", { class: "player-legend" }, ...parts.map(([kind, words]) => make("li", {},
                make("span", { class: `player-key player-bar-${kind}`, "aria-hidden": "true" }),
                make("strong", { "data-part": kind }, grouped(row[kind])), ` ${words}`))));
    }

    function timer(wait) {
        let words = "No deadline: epoll_wait may sleep for ever.";
        if (wait.ms >= 0) words = `At most ${grouped(wait.ms)} ms to the nearest deadline, when epoll_wait began.`;
        if (wait.over) words = `The ${grouped(wait.ms)} ms are over: the deadline has come.`;
        return panel("Timer", make("p", { class: wait.over ? "player-over" : null }, words));
    }

    // A time line: who waits, who is worked on, and where, up to this step's moment.
    function timeline(line) {
        const place = (time) => `${(100 * time) / line.end}%`;
        const rows = line.rows.map((row) => {
            const parts = row.parts.map(([kind, from, to]) => make("span", {
                class: `player-time player-time-${kind}`,
                style: `left: ${place(from)}; width: ${place(to - from)}`,
            }));
            const track = make("span", { class: "player-track", "aria-hidden": "true" }, ...parts,
                make("span", { class: "player-cursor", style: `left: ${place(line.now)}` }));
            return make("li", {}, make("strong", {}, row.name), " ", track, make("span", {}, row.words));
        });
        const keys = [["loop", "on the loop"], ["waits", "waits for the loop"], ["worker", "on a worker"]];
        return panel(`Time line: 0 to ${grouped(line.end / 1000)} ms, now ${(line.now / 1000).toFixed(1)} ms`,
            make("ul", { class: "player-timeline" }, ...rows),
            make("ul", { class: "player-legend" }, ...keys.map(([kind, words]) => make("li", {},
                make("span", { class: `player-key player-time-${kind}`, "aria-hidden": "true" }), words))));
    }

    function tally(counts, title) {
        const names = ["select", "poll", "epoll_wait", "accept4", "timerfd_settime", "read", "write"];
        const words = Object.entries(counts)
            .filter(([name]) => names.includes(name.split(" ")[0]))
            .map(([name, count]) => `${name} ${count}`);
        return panel(title ? "Calls so far" : "Calls of the server so far", make("p", { class: "player-tally" }, words.join(" · ") || "none yet"));
    }

    function draw(view, before, most) {
        if (view.timeline) return [timeline(view.timeline)];
        const panels = [];
        if (view.select) panels.push(select(view.select));
        if (view.poll) panels.push(poll(view.poll));
        (view.epoll || []).forEach((instance, place) => {
            panels.push(epoll(instance, before && before.epoll && before.epoll[place]));
        });
        (view.replies || []).forEach((row) => panels.push(reply(row)));
        if (view.timer) panels.push(timer(view.timer));
        panels.push(descriptors(view, before, most), tally(view.tally, view.title));
        return panels;
    }

    // A lane: its listing, the current step in full, and the state.
    class Lane {
        constructor(element, views) {
            this.views = views;
            this.items = [...element.querySelectorAll(".player-listing > li")];
            this.listing = element.querySelector(".player-listing");
            // It scrolls, so the keyboard must reach it.
            this.listing.tabIndex = 0;
            this.detail = make("div", { class: "player-detail" });
            this.state = make("div", { class: "player-state" });
            const title = element.querySelector(".player-lane-title");
            this.title = title ? title.textContent : "";
            const story = make("div", { class: "player-story" });
            this.listing.replaceWith(story);
            story.append(this.listing, this.detail);
            element.append(this.state);
            // Bars of unread bytes are drawn to one scale.
            const unread = views.flatMap((view) => view.fds.map((row) => row.unread || 0));
            this.most = Math.max(1, ...unread);
        }

        show(step) {
            this.items.forEach((item, place) => {
                if (place === step) item.setAttribute("aria-current", "step");
                else item.removeAttribute("aria-current");
            });
            const item = this.items[step];
            // Only the listing scrolls, never the page.
            const middle = item.offsetTop - (this.listing.clientHeight - item.offsetHeight) / 2;
            this.listing.scrollTop = Math.max(0, middle);
            const parts = [...item.children].filter((part) => !part.matches(".player-now"));
            this.detail.replaceChildren(...parts.map((part) => part.cloneNode(true)));
            this.state.replaceChildren(...draw(this.views[step], this.views[step - 1], this.most));
        }

        words(step) {
            const of = (kind) => [...this.items[step].querySelectorAll(kind)].map((part) => part.textContent);
            const calls = of(".player-call").slice(-1);
            return [this.title, ...calls, ...of(".player-note")].filter(Boolean).join(". ");
        }
    }

    class Player {
        constructor(figure) {
            this.figure = figure;
            const views = JSON.parse(figure.querySelector(".player-data").textContent);
            const lanes = [...figure.querySelectorAll(".player-lane")];
            this.lanes = lanes.map((lane, place) => new Lane(lane, views[place]));
            this.last = views[0].length - 1;
            this.step = 0;
            this.timer = null;
            this.addControls();
            figure.classList.add("is-live");
            figure.addEventListener("keydown", (event) => this.key(event));
            this.lanes.forEach((lane) => lane.items.forEach((item, place) => {
                item.addEventListener("click", () => this.go(place));
            }));
            this.go(this.asked() ?? 0);
        }

        addControls() {
            const button = (name, words, act) => {
                const element = make("button", { type: "button", class: `player-button player-${name}` }, words);
                element.addEventListener("click", act);
                return element;
            };
            this.back = button("back", "Back", () => this.go(this.step - 1));
            this.play = button("play", "Play", () => (this.timer ? this.pause() : this.begin()));
            this.forward = button("forward", "Forward", () => this.go(this.step + 1));
            this.slider = make("input", { type: "range", class: "player-slider", min: 1, max: this.last + 1, value: 1, "aria-label": "Step" });
            this.slider.addEventListener("input", () => this.go(Number(this.slider.value) - 1));
            this.count = make("span", { class: "player-count" });
            this.link = make("a", { class: "player-link" }, "link to this step");
            this.status = make("p", { class: "player-status", role: "status", "aria-live": "polite" });
            const controls = make("div", { class: "player-controls" },
                this.back, this.play, this.forward, this.slider, this.count, this.link);
            this.figure.querySelector(".player-lanes").before(controls, this.status);
        }

        // The step that the address asks for.
        asked() {
            const prefix = `#${this.figure.id}-step-`;
            if (!location.hash.startsWith(prefix)) return null;
            const step = parseInt(location.hash.slice(prefix.length), 10) - 1;
            return step >= 0 && step <= this.last ? step : null;
        }

        go(step, isPlaying = false) {
            if (!isPlaying) this.pause();
            this.step = Math.min(Math.max(step, 0), this.last);
            this.lanes.forEach((lane) => lane.show(this.step));
            const number = this.step + 1;
            this.slider.value = number;
            this.count.textContent = `Step ${number} of ${this.last + 1}`;
            this.slider.setAttribute("aria-valuetext", this.count.textContent);
            this.link.href = `#${this.figure.id}-step-${number}`;
            this.figure.dataset.step = number;
            // Not `disabled`: the button would lose the keyboard's focus.
            this.back.setAttribute("aria-disabled", String(this.step === 0));
            this.forward.setAttribute("aria-disabled", String(this.step === this.last));
            this.status.textContent = `${this.count.textContent}. ${this.lanes.map((lane) => lane.words(this.step)).join(". ")}`;
        }

        begin() {
            if (this.step === this.last) this.go(0);
            this.play.textContent = "Pause";
            // A screen reader could not keep up with it.
            this.status.setAttribute("aria-live", "off");
            this.timer = setInterval(() => {
                this.go(this.step + 1, true);
                if (this.step === this.last) this.pause();
            }, PACE);
        }

        pause() {
            clearInterval(this.timer);
            this.timer = null;
            this.play.textContent = "Play";
            this.status.setAttribute("aria-live", "polite");
        }

        key(event) {
            if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
            const steps = { ArrowLeft: this.step - 1, ArrowRight: this.step + 1, Home: 0, End: this.last };
            if (!(event.key in steps)) return;
            // Elsewhere on the page, mdBook turns the page with the arrows.
            event.stopPropagation();
            event.preventDefault();
            this.go(steps[event.key]);
        }
    }

    const players = [...document.querySelectorAll("figure.player")].map((figure) => new Player(figure));

    window.addEventListener("hashchange", () => {
        for (const player of players) {
            const step = player.asked();
            if (step === null) continue;
            player.go(step);
            player.figure.scrollIntoView({ block: "start" });
        }
    });
    // The address may name a step that was hidden when the browser looked for it.
    const named = players.find((player) => player.asked() !== null);
    if (named) named.figure.scrollIntoView({ block: "start" });
})();
