// What the rivals that are agents share: texts, the scripted model, processes that speak in lines, and times.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import readline from 'node:readline';

/** The texts of a file with a JSON string a line, one a turn. */
export const texts = (file) => fs.readFileSync(file, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));

export const bytesOf = (all) => all.reduce((sum, text) => sum + Buffer.byteLength(text), 0);

/** Starts the scripted model; resolves to its port and what ends it. */
export async function startModel(server) {
  const process_ = spawn(process.execPath, [server, '0', '--exit-with-stdin'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const port = await new Promise((resolve, reject) => {
    process_.on('exit', (code) => reject(new Error(`the model ended with ${code}`)));
    readline.createInterface({ input: process_.stdout }).on('line', (line) => {
      const found = /model on (\d+)/.exec(line);
      if (found) resolve(Number(found[1]));
    });
  });
  return { port, stop: () => process_.kill() };
}

/** What the model answers to a prompt with [[script:NAME]]. */
export async function script(port, name, steps) {
  const put = await fetch(`http://127.0.0.1:${port}/_script/${name}`, { method: 'PUT', body: JSON.stringify(steps) });
  if (!put.ok) throw new Error(`the model took no script: ${put.status}`);
}

/** Runs something; resolves to its milliseconds and its value. */
export async function timed(work) {
  const began = performance.now();
  const value = await work();
  return [performance.now() - began, value];
}

/** Runs something 21 times; resolves to the best and the median, ms, and to the last value. */
export async function often(work) {
  const times = [];
  let last;
  for (let n = 0; n < 21; n += 1) {
    const [took, value] = await timed(work);
    times.push(took);
    last = value;
  }
  times.sort((a, b) => a - b);
  return { best_ms: times[0], median_ms: times[10], last };
}

/** Ends with an error where an agent says nothing any more. */
export const patience = (seconds) =>
  setTimeout(() => {
    console.error(`the rival did not end within ${seconds} s`);
    process.exit(1);
  }, seconds * 1000).unref();
