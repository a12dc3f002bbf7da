// What the scripted agents share: a script that says what each prompt leads to, a log that is synced line by line, and a
// store for conversations. The log is the oracle of the chaos runs: it holds what the agent itself saw and did, in its own
// order, whoever was killed meanwhile.
//
//   node scripted-PROTOCOL.mjs --script FILE --log FILE --store DIR [--plant NAME]
//
// The script is JSON: {"prompts": {NAME: [step, …], …}, "default": [step, …]}. A prompt that holds [[do:NAME]] is NAME and
// runs the steps of that name; any other is `null` and runs the default ones. Steps:
//   {"say": TEXT, "pieces": N, "every": MS}   a message of the agent, streamed in N pieces, MS apart
//   {"think": TEXT}                           reasoning
//   {"plan": [TEXT, …]}                       a plan; all but its last entry are done
//   {"tool": NAME, "output": TEXT, "ms": MS}  something it does without asking
//   {"ask": NAME}                             asks whether it may do something named NAME; does it if it may
//   {"question": NAME}                        asks a question with the two choices `NAME: yes` and `NAME: no`
//   {"pause": MS}                             waits
//   {"wait": FILE}                            waits until a file exists
//   {"hang": true}                            goes on until it is stopped
//   {"raw": {…}}                              sends this update as it is (ACP only)
//   {"fail": TEXT}                            ends the turn by an error
//   {"stop": REASON}                          ends the turn with another stop reason (ACP only)
//   {"exit": STATUS}                          ends the process
//
// Lines of the log, one JSON object each, with `at` (Unix ms) and `pid`:
//   start · session{session, how} · prompt{name, session, busy} · taken{name} · steer{name} · said{name, text} · ask{request}
//   answer{request, option, names} · stray{id} · effect{request} · hang{name} · exit{name} · cancel{session} · end{name, reason}
//
// --plant makes the agent lie, so that the checks that read this log can be seen to fail:
//   twice      every prompt is logged twice
//   deaf       no prompt is logged
//   mixed      every answer is logged as one to another request
//   answers    every answer is logged twice
//   effects    every effect is logged twice
//   unread     no answer is logged
//   stuck      no turn ends
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({
  options: {
    script: { type: 'string' },
    log: { type: 'string' },
    store: { type: 'string' },
    plant: { type: 'string', default: '' },
  },
});

const log = fs.openSync(options.log, 'a');

/** Writes a line and does not go on before it is on disk. */
function write(entry) {
  fs.writeSync(log, `${JSON.stringify({ at: Date.now(), pid: process.pid, ...entry })}\n`);
  fs.fdatasyncSync(log);
}

const DOUBLED = { twice: 'prompt', answers: 'answer', effects: 'effect' };

/** Notes what happened; a planted fault makes it a lie. */
export function note(entry) {
  const { plant } = options;
  if (plant === 'deaf' && entry.log === 'prompt') return;
  if (plant === 'unread' && entry.log === 'answer') return;
  if (plant === 'mixed' && entry.log === 'answer') entry = { ...entry, names: `other-${entry.request}` };
  write(entry);
  if (entry.log === DOUBLED[plant]) write(entry);
}

let counter = 0;
/** An id that no other process of this agent gives. */
export const fresh = (kind) => `${kind}-${process.pid}-${Date.now().toString(36)}-${(counter += 1)}`;

export const nameOf = (text) => /\[\[do:([\w.-]+)\]\]/.exec(text)?.[1] ?? null;

function stepsOf(name) {
  const script = JSON.parse(fs.readFileSync(options.script, 'utf8'));
  return script.prompts?.[name] ?? script.default ?? [{ say: 'Fine.' }];
}

/** A conversation's file: one JSON value per line, each synced. */
export const store = {
  file: (id) => path.join(options.store, `${id.replace(/[^\w.-]/g, '_')}.jsonl`),
  has: (id) => fs.existsSync(store.file(id)),
  add(id, value) {
    const file = fs.openSync(store.file(id), 'a');
    fs.writeSync(file, `${JSON.stringify(value)}\n`);
    fs.fdatasyncSync(file);
    fs.closeSync(file);
  },
  read(id) {
    const lines = fs.readFileSync(store.file(id), 'utf8').split('\n');
    return lines.filter(Boolean).map((line) => JSON.parse(line));
  },
};

/** A turn in the hands of the script. `stop` makes it end as soon as it can. */
export class Turn {
  constructor(session, id, name) {
    Object.assign(this, { session, id, name, stopped: false, words: [] });
    this.stopping = new Promise((resolve) => {
      this.stop = () => {
        this.stopped = true;
        resolve('stopped');
      };
    });
  }

  /** Waits, but not beyond the turn's stop. */
  within(promise) {
    return Promise.race([promise, this.stopping]);
  }

  sleep(ms) {
    return this.within(new Promise((resolve) => setTimeout(resolve, ms)));
  }
}

async function exists(turn, file) {
  while (!turn.stopped && !fs.existsSync(file)) await turn.sleep(5);
}

/** Asks through the face; does what was allowed. The face gives {allowed, option, names} or null if nobody answered. */
async function asks(turn, face, request, ask) {
  note({ log: 'ask', request, session: turn.session });
  const answer = await ask(turn, request, (given) => note({ log: 'answer', request, ...given }));
  if (answer?.allowed) note({ log: 'effect', request });
  return answer;
}

/** Runs a turn's script and gives how it ended: {reason} or {error}. */
export async function perform(turn, face) {
  for (const step of stepsOf(turn.name)) {
    if (turn.stopped) break;
    if (step.say !== undefined) {
      const pieces = Math.max(1, step.pieces ?? 1);
      const size = Math.max(1, Math.ceil(step.say.length / pieces));
      const message = face.openMessage(turn);
      let said = '';
      for (let at = 0; at < step.say.length && !turn.stopped; at += size) {
        const piece = step.say.slice(at, at + size);
        face.appendMessage(turn, message, piece);
        said += piece;
        if (step.every) await turn.sleep(step.every);
      }
      note({ log: 'said', name: turn.name, text: said });
      face.closeMessage(turn, message, said);
    } else if (step.think !== undefined) face.think(turn, step.think);
    else if (step.plan !== undefined) face.plan(turn, step.plan);
    else if (step.tool !== undefined) await face.tool(turn, step);
    else if (step.ask !== undefined) {
      const answer = await asks(turn, face, step.ask, face.ask);
      if (answer?.stops) turn.stop();
    } else if (step.question !== undefined) await asks(turn, face, step.question, face.question);
    else if (step.pause !== undefined) await turn.sleep(step.pause);
    else if (step.wait !== undefined) await exists(turn, step.wait);
    else if (step.hang) {
      note({ log: 'hang', name: turn.name });
      await turn.stopping;
    } else if (step.raw !== undefined) face.raw?.(turn, step.raw);
    else if (step.fail !== undefined) return { error: step.fail };
    else if (step.stop !== undefined) return { reason: step.stop };
    else if (step.exit !== undefined) {
      note({ log: 'exit', name: turn.name });
      process.exit(step.exit);
    }
  }
  if (options.plant === 'stuck') await new Promise(() => {});
  return { reason: turn.stopped ? 'cancelled' : 'end_turn' };
}

write({ log: 'start' });
