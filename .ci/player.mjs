// Plays the book's trace players in a headless Chromium.
//
//   mdbook build book
//   npm install --prefix /tmp/player-test playwright-core axe-core
//   node .ci/player.mjs book/book /tmp/player-test [--shots DIR]
//
// Chromium is /usr/bin/chromium, or what CHROMIUM names. With --shots DIR it also leaves pictures there, to look at.
// Exit status: 0 everything is as it should be, 1 something is not.

import { createRequire } from "node:module";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [book, modules, flag, shots] = process.argv.slice(2);
if (!book || !modules) {
    console.error("usage: node .ci/player.mjs BUILT_BOOK FOLDER_WITH_NODE_MODULES [--shots DIR]");
    process.exit(2);
}
const require = createRequire(join(resolve(modules), "x"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const root = resolve(import.meta.dirname, "..");
const url = (page, hash = "") => pathToFileURL(join(resolve(book), page)).href + hash;
// 404.html is for a web server: its links begin at the server's root.
const pages = readdirSync(book).filter((name) => name.endsWith(".html") && name !== "404.html");
const themes = ["light", "rust", "coal", "navy", "ayu"];

let failures = 0;
let checks = 0;
function check(condition, words) {
    checks += 1;
    if (condition) return;
    failures += 1;
    console.error(`FAILED  ${words}`);
}
const same = (left, right, words) =>
    check(JSON.stringify(left) === JSON.stringify(right), `${words}: ${JSON.stringify(left)} is not ${JSON.stringify(right)}`);

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox"] });

async function open(page, { theme = "light", width = 1280, hash = "", ...options } = {}) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, ...options });
    await context.addInitScript((theme) => localStorage.setItem("mdbook-theme", theme), theme);
    const tab = await context.newPage();
    const errors = [];
    tab.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    tab.on("pageerror", (error) => errors.push(String(error)));
    await tab.goto(url(page, hash));
    return { tab, errors, done: () => context.close() };
}

// What a player shows, without the words around it.
const shown = (tab, id) => tab.evaluate((id) => {
    const figure = document.getElementById(id);
    const text = (kind) => [...figure.querySelectorAll(kind)].map((part) => part.textContent);
    return { step: Number(figure.dataset.step), count: text(".player-count")[0], detail: text(".player-detail"), state: text(".player-state") };
}, id);

// The numbers of a state as the page's data has them, next to those that are drawn.
const numbers = (tab, id, step) => tab.evaluate(([id, step]) => {
    const figure = document.getElementById(id);
    const data = JSON.parse(figure.querySelector(".player-data").textContent);
    return data.map((views, place) => {
        const view = views[step];
        const state = figure.querySelectorAll(".player-state")[place];
        const digits = (text) => (text.replaceAll(",", "").match(/\d+/g) || []).map(Number);
        const table = (title) => {
            const panel = [...state.querySelectorAll(".player-panel")].find((panel) => panel.ariaLabel.startsWith(title));
            return panel ? [...panel.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent)) : [];
        };
        const lists = (kind) => [...state.querySelectorAll(`.player-${kind} li strong`)].map((part) => digits(part.textContent)[0]);
        const drawn = {
            fds: table("Open ").map(([fd]) => Number(fd)),
            unread: table("Open ").map(([, , waits]) => (/unread/.test(waits) && !/nothing/.test(waits) ? digits(waits)[0] : 0)),
            asked: table("The last select").slice(0, 1).flatMap((row) => row.slice(1).flatMap((bit, fd) => (bit === "1" ? [fd] : []))),
            answered: table("The last select").slice(1).flatMap((row) => row.slice(1).flatMap((bit, fd) => (bit === "1" ? [fd] : []))),
            poll: table("The last poll").map(([fd, events, revents]) => [Number(fd), events, revents]),
            interest: lists("interest"),
            ready: lists("ready"),
            reply: [...state.querySelectorAll("[data-part]")].map((part) => digits(part.textContent)[0]),
        };
        const epolls = view.epoll || [];
        const expected = {
            fds: view.fds.map((row) => row.fd),
            unread: view.fds.map((row) => row.unread || 0),
            asked: view.select ? view.select.asked : [],
            answered: view.select ? view.select.answered : [],
            poll: (view.poll || []).map((entry) => [entry.fd, entry.events, entry.revents]),
            interest: epolls.flatMap((epoll) => epoll.interest.map((entry) => entry.fd)),
            ready: epolls.flatMap((epoll) => epoll.ready.map((entry) => entry.fd)),
            reply: (view.replies || []).flatMap((reply) => [reply.received, reply.kernel, reply.waiting]),
        };
        return { drawn, expected, view };
    });
}, [id, step]);

async function violations(tab, scope) {
    await tab.evaluate(axe);
    const found = await tab.evaluate((scope) => window.axe.run(scope), scope);
    return found.violations
        .filter((one) => ["serious", "critical"].includes(one.impact))
        .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`);
}

// --- Every page loads, in all themes, and is not wider than a small screen.

const withPlayers = [];
for (const page of pages) {
    const { tab, errors, done } = await open(page, { width: 375 });
    same(errors, [], `${page}: errors on the console`);
    const wide = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    check(wide <= 0, `${page}: at 375 pixels it scrolls sideways by ${wide}`);
    const ids = await tab.evaluate(() => [...document.querySelectorAll("figure.player")].map((figure) => figure.id));
    if (ids.length > 0 && page !== "print.html") withPlayers.push([page, ids]);
    await done();
}
same(withPlayers.flatMap(([, ids]) => ids).sort(),
    ["ch02-select", "ch03-poll", "ch04-epoll-lt", "ch05-epoll-et", "ch06-reactor", "ch06-silence", "ch07-eventfd", "ch07-rearmed", "ch07-timerfd", "ch08-workers"], "the players");

for (const [page, ids] of withPlayers) {
    const { tab, errors, done } = await open(page);
    for (const id of ids) {
        const last = await tab.evaluate((id) => Number(document.querySelector(`#${id} .player-slider`).max), id);
        // By force: at an end the button is marked as disabled, and must bear a click all the same.
        const click = (name) => tab.click(`#${id} .player-${name}`, { force: true });

        // --- To the end and back, by click; every step is drawn as it was recorded.
        const forwards = [];
        for (let step = 0; step < last; step += 1) {
            forwards.push(await shown(tab, id));
            for (const { drawn, expected } of await numbers(tab, id, step)) same(drawn, expected, `${id} step ${step + 1}`);
            await click("forward");
        }
        same(forwards.map((one) => one.step), Array.from({ length: last }, (_, step) => step + 1), `${id}: the steps forward`);
        const end = await shown(tab, id);
        same(end.step, last, `${id}: forward stops at the end`);
        for (let step = last - 1; step > 0; step -= 1) {
            await click("back");
            same(await shown(tab, id), forwards[step - 1], `${id}: back to step ${step}`);
        }
        await click("back");
        same((await shown(tab, id)).step, 1, `${id}: back stops at the beginning`);

        // --- The same by keyboard, from a button, from the slider and from the listing.
        for (const place of ["forward", "slider", "listing"]) {
            await tab.focus(`#${id} .player-${place}`);
            for (let step = 1; step < last; step += 1) await tab.keyboard.press("ArrowRight");
            same(await shown(tab, id), end, `${id}: to the end by keyboard, from ${place}`);
            for (let step = 1; step < last; step += 1) await tab.keyboard.press("ArrowLeft");
            same(await shown(tab, id), forwards[0], `${id}: to the beginning by keyboard, from ${place}`);
            await tab.keyboard.press("End");
            same((await shown(tab, id)).step, last, `${id}: End, from ${place}`);
            await tab.keyboard.press("Home");
            same((await shown(tab, id)).step, 1, `${id}: Home, from ${place}`);
        }
        check(tab.url().endsWith(page), `${id}: the arrows do not turn the book's page`);

        // --- Play, pause, a click on the listing, the live region.
        await click("play");
        same(await tab.textContent(`#${id} .player-play`), "Pause", `${id}: playing`);
        await tab.waitForFunction((id) => Number(document.getElementById(id).dataset.step) > 1, id, { timeout: 20000 });
        await click("play");
        same(await tab.textContent(`#${id} .player-play`), "Play", `${id}: paused`);
        await tab.evaluate((id) => document.querySelectorAll(`#${id} .player-listing > li`)[2].click(), id);
        same((await shown(tab, id)).step, 3, `${id}: a click on a call`);
        const said = await tab.textContent(`#${id} [role=status]`);
        check(said.startsWith(`Step 3 of ${last}.`), `${id}: a screen reader hears ${said}`);
        same(await tab.getAttribute(`#${id} .player-link`, "href"), `#${id}-step-3`, `${id}: the link`);

        // --- A link to a step.
        const linked = await open(page, { hash: `#${id}-step-7` });
        same((await shown(linked.tab, id)).step, 7, `${id}: a link to a step`);
        await linked.tab.evaluate((hash) => { location.hash = hash; }, `${id}-step-9`);
        await linked.tab.waitForFunction((id) => document.getElementById(id).dataset.step === "9", id, { timeout: 20000 });
        await linked.done();
    }
    same(errors, [], `${page}: errors on the console while playing`);
    await done();

    // --- No serious violation, in any theme.
    for (const theme of themes) {
        const { tab, done } = await open(page, { theme });
        for (const id of ids) {
            await tab.focus(`#${id} .player-slider`);
            for (let step = 0; step < 12; step += 1) await tab.keyboard.press("ArrowRight");
        }
        same(await violations(tab, ".player"), [], `${page} in ${theme}: axe`);
        await done();
    }

    // --- On a small screen nothing sticks out at any step.
    const small = await open(page, { width: 375 });
    for (const id of ids) {
        const wide = await small.tab.evaluate((id) => {
            const slider = document.querySelector(`#${id} .player-slider`);
            let most = 0;
            for (let step = 1; step <= Number(slider.max); step += 1) {
                slider.value = step;
                slider.dispatchEvent(new Event("input"));
                most = Math.max(most, document.documentElement.scrollWidth - document.documentElement.clientWidth);
                const figure = document.getElementById(id);
                most = Math.max(most, figure.scrollWidth - figure.clientWidth);
            }
            return most;
        }, id);
        check(wide <= 0, `${id}: at 375 pixels a step is too wide by ${wide}`);
    }
    await small.done();

    // --- Without a script there is a listing, and each step has its address.
    const plain = await open(page, { javaScriptEnabled: false, width: 375 });
    for (const id of ids) {
        same(await plain.tab.isVisible(`#${id}-step-5 .player-call`), true, `${id}: the listing without a script`);
        same(await plain.tab.locator(`#${id} .player-controls`).count(), 0, `${id}: no controls without a script`);
        check((await plain.tab.locator(`#${id} .player-now:visible`).count()) > 3, `${id}: the listing tells the state`);
    }
    await plain.done();
}

// --- The players end as the programs said that they end.

const pageOf = (id) => withPlayers.find(([, ids]) => ids.includes(id))[0];
const output = (chapter) => readFileSync(join(root, "chapters", chapter, "expected", `${chapter}.txt`), "utf8");
// The steps of a lane after which a line with these words is printed: their views.
async function at(id, words, lane = 0) {
    const { tab, done } = await open(pageOf(id));
    const step = await tab.evaluate(([id, words, lane]) => {
        const items = [...document.querySelectorAll(`#${id} .player-lane`)[lane].querySelectorAll(".player-listing > li")];
        return items.findIndex((item) => [...item.querySelectorAll(".player-said")].some((part) => part.textContent.includes(words)));
    }, [id, words, lane]);
    check(step >= 0, `${id}: a step prints ${words}`);
    await tab.evaluate(([id, step]) => document.querySelectorAll(`#${id} .player-listing > li`)[step].click(), [id, Math.max(step, 0)]);
    const found = step < 0 ? null : (await numbers(tab, id, step))[lane];
    await done();
    return found;
}
{
    const done = output("ch03-poll").match(/done: client got (\d+) bytes; (\d+) write\(\) calls, (\d+) POLLOUT/).slice(1).map(Number);
    const end = await at("ch03-poll", "done: client got");
    same([end.drawn.reply[0], end.view.tally.write, end.view.tally.poll], done, "ch03-poll: the end");
    same(end.drawn.reply.slice(1), [0, 0], "ch03-poll: nothing is left on the way");
    const full = output("ch03-poll").match(/kernel took (\d+) bytes; (\d+) bytes wait/).slice(1).map(Number);
    same((await at("ch03-poll", "kernel took")).drawn.reply, [0, ...full], "ch03-poll: the output buffer at EAGAIN");
    for (const [line, waits] of output("ch03-poll").matchAll(/POLLOUT #\d.*still buffered (\d+)/g)) {
        same((await at("ch03-poll", line)).drawn.reply[2], Number(waits), `ch03-poll: ${line}`);
    }
}
for (const [line, lane, unread] of output("ch05-epoll-et").matchAll(/\[(ET|LT)\].*unread bytes in socket = (\d+)/g)) {
    const found = await at("ch05-epoll-et", line, lane === "ET" ? 0 : 1);
    same(Math.max(...found.drawn.unread), Number(unread), `ch05-epoll-et: ${line}`);
}
for (const [, turn, ready] of output("ch02-select").matchAll(/(iter \d+): .*ready fds: ([\d ]+)/g)) {
    same((await at("ch02-select", turn)).drawn.answered, ready.split(" ").map(Number), `ch02-select: ${turn}`);
}
for (const [line, count] of output("ch04-epoll-lt").split("\n\n")[0].matchAll(/epoll_wait -> (\d+) of \d+ .*/g)) {
    same((await at("ch04-epoll-lt", line)).drawn.ready.length, Number(count), `ch04-epoll-lt: ${line}`);
}
{
    const end = await at("ch06-reactor", "every byte of it is right");
    same(end.drawn.reply.slice(1), [0, 0], "ch06-reactor: the reply has arrived");
    same((await at("ch06-silence", "the deadline of 6 has come")).view.timer.over, true, "ch06-silence: the deadline");
}

// --- Pictures, to look at.

if (flag === "--shots") {
    mkdirSync(shots, { recursive: true });
    for (const [page, ids] of withPlayers) {
        for (const [theme, width] of [["light", 1280], ["navy", 1280], ["coal", 1280], ["rust", 1280], ["ayu", 1280], ["light", 375], ["navy", 375]]) {
            const { tab, done } = await open(page, { theme, width });
            for (const id of ids) {
                const steps = { "ch02-select": 29, "ch03-poll": 10, "ch04-epoll-lt": 26, "ch05-epoll-et": 10, "ch06-reactor": 15, "ch06-silence": 15, "ch07-eventfd": 7, "ch07-rearmed": 6, "ch07-timerfd": 6 };
                await tab.evaluate(([id, step]) => {
                    const slider = document.querySelector(`#${id} .player-slider`);
                    slider.value = step;
                    slider.dispatchEvent(new Event("input"));
                }, [id, steps[id]]);
                await tab.locator(`#${id}`).screenshot({ path: join(shots, `${id}-${theme}-${width}.png`) });
            }
            await done();
        }
        const plain = await open(page, { javaScriptEnabled: false, width: 800 });
        await plain.tab.locator(`#${ids[0]}`).screenshot({ path: join(shots, `${ids[0]}-plain.png`) });
        await plain.done();
    }
}

await browser.close();
console.log(`${checks - failures} of ${checks} checks hold: ${pages.length} pages, ${withPlayers.flatMap(([, ids]) => ids).length} players`);
process.exit(failures === 0 ? 0 : 1);
