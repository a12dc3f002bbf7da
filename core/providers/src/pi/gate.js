// Pilothouse's permission gate for pi: an extension that asks before tools act. The host starts pi with it (`-e`).
//
// It asks by one of pi's own dialogs, whose text is the call as pi would run it, as JSON. The answer is JSON, too. It is
// strict where it cannot know: whatever it does not know asks, and where it cannot ask, the tool is blocked.
import { VERSION } from "@earendil-works/pi-coding-agent";
import { existsSync, lstatSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, relative, isAbsolute, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

const NAME = "pilothouse-gate";
// Tools of pi that only look.
const LOOKS = new Set(["read", "grep", "find", "ls"]);
const CHANGES = new Set(["edit", "write"]);
// What each mode does with a tool that does more than look.
const MODES = new Set(["read_only", "ask", "auto_edit", "full_access"]);
// Places in a workspace whose files others run.
const RUN_BY_OTHERS = new Set([".git", ".pi"]);
// What pi reads as a blank in a path, and what may be no path at all.
const BLANKS = /[\u00A0\u2000-\u200A\u202F\u205F\u3000]/g;
const SCHEME = /^[a-z][a-z0-9+.-]*:/i;

export default function gate(pi) {
	let mode = "ask";
	// What a person allowed until this process ends.
	const allowed = new Set();

	const report = (ctx, back) => ctx.ui.setStatus(NAME, JSON.stringify({ version: 1, agent: VERSION, mode, back }));

	pi.on("session_start", (_event, ctx) => report(ctx));

	pi.registerCommand(NAME, {
		description: "Says to Pilothouse's permission gate what asks: read_only, ask, auto_edit or full_access",
		handler: async (args, ctx) => {
			const [word, entry] = args.trim().split(" ");
			if (MODES.has(word)) mode = word;
			report(ctx, word === "back" ? await goBack(entry, ctx) : undefined);
		},
	});

	// Takes the session back to before an entry.
	async function goBack(entry, ctx) {
		try {
			const { cancelled } = await ctx.navigateTree(entry, { summarize: false });
			if (cancelled) return { entry, problem: "an extension prevented it" };
			// The session's file says where it stands only with its next entry.
			pi.appendEntry(NAME, { back: entry });
			return { entry };
		} catch (error) {
			return { entry, problem: String(error?.message ?? error) };
		}
	}

	pi.on("tool_call", async (event, ctx) => {
		try {
			return await judge(event, ctx);
		} catch (error) {
			return blocked(`Pilothouse's permission gate failed (${error?.message ?? error}); nothing was done.`);
		}
	});

	async function judge(event, ctx) {
		const tool = event.toolName;
		if (LOOKS.has(tool) || mode === "full_access") return undefined;
		if (mode === "read_only") return blocked(`\`${tool}\` was not run: this thread may only look.`);
		// What is asked is what runs: later extensions may not change it.
		freeze(event.input);
		const file = CHANGES.has(tool) ? opened(event.input?.path, ctx.cwd) : undefined;
		const place = file === undefined ? undefined : leadsTo(file);
		if (mode === "auto_edit" && isInside(place, ctx.cwd)) return undefined;
		const key = sessionKey(tool, event.input, ctx.cwd, place);
		if (key !== undefined && allowed.has(key)) return undefined;
		if (!ctx.hasUI) return blocked("nobody can be asked; nothing was done.");
		const asked = { tool, call: event.toolCallId, input: event.input, cwd: ctx.cwd };
		if (tool === "write" && file !== undefined && existsSync(file)) asked.overwrites = true;
		// Where it is not the place that the path seems to name, that is said.
		if (place !== undefined && place !== resolve(realpathSync(ctx.cwd), event.input.path)) asked.place = place;
		if (key === undefined) asked.once = true;
		const signal = ctx.signal;
		const answer = await ctx.ui.input(NAME, JSON.stringify(asked), signal ? { signal } : undefined);
		const { decision, reason } = read(answer);
		if (decision === "allow") return undefined;
		if (decision === "allow_session" && key !== undefined) {
			allowed.add(key);
			return undefined;
		}
		const words = typeof reason === "string" && reason !== "" ? `: ${reason}` : ".";
		if (decision === "deny") return blocked(`The user denied this${words}`);
		if (decision === "deny_stop") {
			ctx.abort();
			return blocked(`The user denied this and stopped the turn${words}`);
		}
		return blocked("nobody allowed this; nothing was done.");
	}
}

function blocked(reason) {
	return { block: true, reason };
}

function read(answer) {
	try {
		return JSON.parse(answer) ?? {};
	} catch {
		return {};
	}
}

// What `allow_session` allows: the same command, the same path for the same tool while it leads to the same place, or the
// same call. `undefined` where it is not known what that would be.
function sessionKey(tool, input, cwd, place) {
	if (tool === "bash") return JSON.stringify([tool, cwd, input?.command, input?.timeout ?? null]);
	if (CHANGES.has(tool)) return place === undefined ? undefined : JSON.stringify([tool, cwd, input.path, place]);
	return JSON.stringify([tool, cwd, input]);
}

// The file that pi's tools open for a path, as pi 1.6.0 reads paths (its utils/paths.js). `undefined` where that is not known.
function opened(path, cwd) {
	if (typeof path !== "string" || path === "") return undefined;
	let plain = path.replace(BLANKS, " ");
	if (plain.startsWith("@")) plain = plain.slice(1);
	if (plain === "~" || plain.startsWith("~/")) return join(homedir(), plain.slice(1));
	if (!SCHEME.test(plain)) return resolve(cwd, plain);
	try {
		return /^file:\/\//.test(plain) ? resolve(fileURLToPath(plain)) : undefined;
	} catch {
		return undefined;
	}
}

// The place of a file, as the links stand now. `undefined` where they lead nowhere, or it cannot be seen.
function leadsTo(file) {
	try {
		let there = file;
		while (lstatSync(there, { throwIfNoEntry: false }) === undefined) there = dirname(there);
		return join(realpathSync(there), relative(there, file));
	} catch {
		return undefined;
	}
}

// Whether a place lies in the workspace and is none whose files others run.
function isInside(place, cwd) {
	if (place === undefined) return false;
	const inner = relative(realpathSync(cwd), place);
	return inner !== "" && !isAbsolute(inner) && inner !== ".." && !inner.startsWith(`..${sep}`)
		&& !inner.split(sep).some((name) => RUN_BY_OTHERS.has(name.toLowerCase()));
}

function freeze(value) {
	if (value === null || typeof value !== "object") return;
	Object.values(value).forEach(freeze);
	Object.freeze(value);
}
