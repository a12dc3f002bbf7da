// What reached the model: one JSON line per request in the log file, and counts over all of them. Tests use this as the oracle
// for "took effect exactly once", so a line is written before the request is answered.
import fs from 'node:fs';

const TEXT_LIMIT = 500;
const clip = (text) => (text.length > TEXT_LIMIT ? `${text.slice(0, TEXT_LIMIT)}…` : text);

export class RequestLog {
  constructor(file) {
    this.file = file;
    this.startedAt = Date.now();
    this.total = 0;
    this.scripts = {};
    this.marks = {};
    this.waiters = [];
  }

  append(line) {
    const t = (Date.now() - this.startedAt) / 1000;
    if (this.file) fs.appendFileSync(this.file, `${JSON.stringify({ t, ...line })}\n`);
  }

  /** Counts and writes one model request. */
  record(n, kind, model, chosen, extra) {
    this.total += 1;
    const name = chosen.name ?? '(none)';
    const script = (this.scripts[name] ||= { requests: 0, steps: {} });
    script.requests += 1;
    script.steps[chosen.step] = (script.steps[chosen.step] || 0) + 1;
    for (const [mark, times] of Object.entries(chosen.marks)) {
      const seen = (this.marks[mark] ||= { requests: 0, most_in_one_request: 0, newest_in: 0, first_steps: 0 });
      const isNewest = chosen.newest.includes(`[[id:${mark}]]`);
      seen.requests += 1;
      seen.most_in_one_request = Math.max(seen.most_in_one_request, times);
      if (isNewest) seen.newest_in += 1;
      if (isNewest && chosen.step === 0) seen.first_steps += 1;
    }
    const results = chosen.messages.filter((m) => m.role === 'tool');
    this.append({
      n,
      kind,
      model,
      script: chosen.name,
      step: chosen.step,
      user: clip(chosen.newest),
      marks: chosen.marks,
      answered: chosen.answered,
      tool_results: results.slice(-8).map((m) => ({ call: m.callId, text: clip(m.text || '') })),
      tools: chosen.tools,
      ...extra,
    });
    this.wake();
  }

  counts() {
    return { total: this.total, scripts: this.scripts, marks: this.marks };
  }

  requestsOf(name) {
    return this.scripts[name]?.requests || 0;
  }

  /** Resolves to true as soon as script NAME was asked for `count` times, to false after the deadline. */
  reached(name, count, deadlineMs) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), deadlineMs);
      this.waiters.push({ name, count, done: () => (clearTimeout(timer), resolve(true)) });
      this.wake();
    });
  }

  wake() {
    this.waiters = this.waiters.filter((waiter) => {
      if (this.requestsOf(waiter.name) < waiter.count) return true;
      waiter.done();
      return false;
    });
  }
}
