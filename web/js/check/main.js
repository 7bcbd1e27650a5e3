// The self-test page: runs the checks, shows a row for each and what they come to.

import { adoptToken, setToken } from "../server.js";
import { choose, fill, language, text } from "../strings.js";
import { GROUPS, isPersonal } from "./checks.js";
import { report } from "./report.js";
import { Rows } from "./rows.js";
import { verdict } from "./verdict.js";

const at = (id) => document.getElementById(id);
const [listen, again, copy, question] = ["listen", "again", "copy", "question"].map(at);

adoptToken();

const rows = new Rows(at("groups"), GROUPS, {
  useToken: (token) => {
    setToken(token);
    run({ personal: false });
  },
  asked: () => draw(),
});
const ids = GROUPS.flatMap(({ checks }) => checks.map(({ id }) => id));
const results = new Map();
let run_ = null; // The run that counts: one that was overtaken by another changes nothing any more.
let running = false;

function draw() {
  const { asking } = rows;
  // However long it takes: nothing is being tested meanwhile.
  const { mood, code } = asking ? { mood: "asking", code: "asking" } : verdict(results, { running });
  at("verdict").dataset.mood = mood;
  at("verdict-title").textContent = text(`verdict.${code}`);
  at("verdict-text").textContent = text(`verdict.${code}.text`);
  document.title = `${text("check.title")} · Parley`;
  const asked = ids.some((id) => isPersonal(id) && results.get(id));
  listen.hidden = running || asked;
  again.hidden = running || !asked;
  copy.hidden = running && !asking;
  question.hidden = !asking;
}

/**
 * Run the checks. Those that ask for the microphone or make a sound only if `personal`, which wants a click: browsers
 * play nothing without one, and nobody likes to be asked for a microphone by a page that just opened.
 */
async function run({ personal, only = () => true }) {
  const own = (run_ = Symbol("run"));
  running = true;
  at("copied").textContent = "";
  at("report").hidden = true;
  const world = { results, config: null };
  const wanted = (id) => only(id) && (personal || !isPersonal(id));
  for (const id of ids.filter((id) => wanted(id) || (!personal && isPersonal(id)))) {
    results.delete(id);
    rows.wait(id);
  }
  draw();
  try {
    for (const { checks } of GROUPS) {
      for (const { id, check } of checks) {
        if (!wanted(id)) continue;
        rows.begin(id);
        const result = await check(world, rows.prompt(id)).catch(failure);
        if (run_ !== own) return;
        results.set(id, result);
        rows.show(id, result);
        draw();
      }
    }
  } finally {
    world.release?.();
  }
  running = false;
  draw();
  if (!personal) return;
  at("verdict").scrollIntoView({ block: "nearest" });
  again.focus({ preventScroll: true }); // What had the focus is gone.
}

/** A check that broke is a fault of ours, which must not end the others. */
function failure(error) {
  console.error(error);
  return { status: "fail", code: "broken", details: { error: String(error) } };
}

listen.addEventListener("click", async () => {
  await run({ personal: true, only: isPersonal });
  // A browser that hides its addresses until the microphone is allowed may get through now.
  if (results.get("webrtc")?.code === "local_only" && results.get("microphone")?.status === "ok") {
    await run({ personal: true, only: (id) => id === "server" || id === "webrtc" });
  }
});
question.addEventListener("click", () => rows.goToQuestion());
again.addEventListener("click", () => run({ personal: true }));
copy.addEventListener("click", async () => {
  const words = report(GROUPS, results, { running: running && !rows.asking });
  try {
    await navigator.clipboard.writeText(words);
    at("copied").textContent = text("check.copied");
  } catch {
    // Without https, or where the person forbids it, the text is shown to be copied by hand.
    at("report").value = words;
    at("report").hidden = false;
    at("report").select();
    at("copied").textContent = text("check.copyByHand");
  }
});

const picker = at("language");
picker.value = language();
picker.addEventListener("change", () => {
  choose(picker.value);
  fill();
  rows.refresh();
  draw();
});

fill();
run({ personal: false });
