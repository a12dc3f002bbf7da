//! What the agents of the three families that speak in lines say in a life that is stopped in a turn, after recordings, and the
//! program that says it up to a point.

/// What an agent does, one thing after the other.
pub(crate) enum Step {
    /// Takes lines until one that holds this.
    Hears(&'static str),
    /// Takes lines until there are no more.
    HearsTheEnd,
    /// Writes a line, in which `@id@` is the id in the line heard last and `@session@` the conversation it was started for.
    Says(&'static str),
}
use Step::{Hears, HearsTheEnd, Says};

/// Where an agent ends: with so many steps behind it, and so many bytes of the line that the next one says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) steps: usize,
    pub(crate) bytes: usize,
}

const PRELUDE: &str = r#"
for word in "$@"; do
  if [ "$before" = --session-id ]; then session=$word; fi
  before=$word
done
hears() {
  while IFS= read -r line; do
    case $line in *"$1"*)
      for key in '"id":' '"request_id":' '"uuid":'; do
        case $line in *"$key"*) id=${line#*"$key"}; id=${id%%[,\}]*}; return ;; esac
      done
    esac
  done
  exit 4
}
"#;

/// The command of an agent that does all of it up to a point, or to its end.
pub(crate) fn command(steps: &[Step], point: Option<Point>) -> Vec<String> {
    let point = point.unwrap_or(Point {
        steps: steps.len(),
        bytes: 0,
    });
    let mut script = PRELUDE.to_owned();
    for step in &steps[..point.steps] {
        match step {
            Hears(what) => script.push_str(&format!("hears '{what}'\n")),
            HearsTheEnd => script.push_str("while read -r line; do :; done\n"),
            Says(line) => script.push_str(&format!("printf '%s\\n' {}\n", quoted(line))),
        }
    }
    if let Some(Says(line)) = steps.get(point.steps)
        && point.bytes > 0
    {
        let part = quoted(&line[..point.bytes]);
        script.push_str(&format!("printf '%s' {part}\n"));
    }
    script.push_str("exit 3\n");
    ["sh", "-c", &script, "agent"].map(str::to_owned).to_vec()
}

/// As a word of the shell. What stands between two `@` is the name of a variable; half a name is none.
fn quoted(text: &str) -> String {
    let pieces = text.split('@').enumerate();
    let closed = text.matches('@').count();
    let words = pieces.map(|(at, piece)| match at % 2 {
        0 => format!("'{piece}'"),
        _ if at == closed => String::new(),
        _ => format!("\"${{{piece}}}\""),
    });
    words.collect()
}

/// Every point between two steps, and in each line a middle and all of it but its end; or every byte.
pub(crate) fn points(steps: &[Step], each: bool) -> Vec<Point> {
    let mut points = Vec::new();
    for (done, step) in steps.iter().enumerate() {
        let bytes = match step {
            Says(line) if each => (0..=line.len()).collect(),
            Says(line) => vec![0, line.len() / 2, line.len()],
            Hears(_) | HearsTheEnd => vec![0],
        };
        points.extend(bytes.into_iter().map(|bytes| Point { steps: done, bytes }));
    }
    points.push(Point {
        steps: steps.len(),
        bytes: 0,
    });
    points
}

pub(crate) const CODEX: &[Step] = &[
    Hears("initialize"),
    Says(r#"{"id":@id@,"result":{"userAgent":"pilothouse/0.171.0 (test)"}}"#),
    Hears("model/list"),
    Says(r#"{"id":@id@,"result":{"data":[]}}"#),
    Hears("account/read"),
    Says(r#"{"id":@id@,"result":{"account":null,"requiresOpenaiAuth":true}}"#),
    Hears("config/read"),
    Says(r#"{"id":@id@,"result":{"config":{}}}"#),
    Hears("thread/start"),
    Says(
        r#"{"id":@id@,"result":{"thread":{"id":"t"},"approvalPolicy":"untrusted","approvalsReviewer":"user","sandbox":{"type":"workspaceWrite"},"cwd":"/","model":"m"}}"#,
    ),
    Hears("turn/start"),
    Says(r#"{"id":@id@,"result":{"turn":{"id":"u","status":"inProgress","items":[]}}}"#),
    Says(
        r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u","status":"inProgress","items":[]}}}"#,
    ),
    Says(
        r#"{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"m","text":""}}}"#,
    ),
    Says(
        r#"{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"m","delta":"Running."}}"#,
    ),
    Says(
        r#"{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"commandExecution","id":"i","command":"make","cwd":"/","status":"inProgress"}}}"#,
    ),
    Says(
        r#"{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"t","turnId":"u","itemId":"i","command":"make","cwd":"/"}}"#,
    ),
    Hears(r#""decision":"accept""#),
    Says(r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}"#),
    Says(
        r#"{"method":"item/commandExecution/outputDelta","params":{"threadId":"t","turnId":"u","itemId":"i","delta":"out"}}"#,
    ),
    Hears("turn/interrupt"),
    Says(r#"{"id":@id@,"result":{}}"#),
    Says(
        r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"interrupted"}}}"#,
    ),
    HearsTheEnd,
    Says(
        r#"{"method":"thread/status/changed","params":{"threadId":"t","status":{"type":"idle"}}}"#,
    ),
];

pub(crate) const CLAUDE: &[Step] = &[
    Hears("initialize"),
    Says(
        r#"{"type":"control_response","response":{"subtype":"success","request_id":@id@,"response":{"claude_code_version":"9","current_permission_mode":"default","account":{"email":"x"}}}}"#,
    ),
    Hears(r#""uuid":"#),
    Says(
        r#"{"type":"command_lifecycle","command_uuid":@id@,"state":"started","session_id":"@session@"}"#,
    ),
    Says(
        r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m","role":"assistant","content":[]}},"session_id":"@session@","parent_tool_use_id":null}"#,
    ),
    Says(
        r#"{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}},"session_id":"@session@","parent_tool_use_id":null}"#,
    ),
    Says(
        r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I write"}},"session_id":"@session@","parent_tool_use_id":null}"#,
    ),
    Says(
        r#"{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"make"}}]},"session_id":"@session@","parent_tool_use_id":null}"#,
    ),
    Says(
        r#"{"type":"control_request","request_id":"k","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make"},"tool_use_id":"t"}}"#,
    ),
    Hears(r#""behavior":"allow""#),
    // It sends back what it takes.
    Says(
        r#"{"type":"control_response","response":{"subtype":"success","request_id":"k","response":{"behavior":"allow","updatedInput":{"command":"make"}}}}"#,
    ),
    Says(r#"{"type":"system","subtype":"status","status":"requesting","session_id":"@session@"}"#),
    Hears("interrupt"),
    Says(
        r#"{"type":"control_response","response":{"subtype":"success","request_id":@id@,"response":{"still_queued":[]}}}"#,
    ),
    Says(
        r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"stopped","is_error":true}]},"session_id":"@session@","parent_tool_use_id":null}"#,
    ),
    Says(
        r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools","session_id":"@session@"}"#,
    ),
    HearsTheEnd,
    Says(r#"{"type":"system","subtype":"status","status":null,"session_id":"@session@"}"#),
];

pub(crate) const PI: &[Step] = &[
    Says(
        r#"{"type":"extension_ui_request","id":"g","method":"setStatus","statusKey":"pilothouse-gate","statusText":"{\"version\":1,\"agent\":\"1.6.0\",\"mode\":\"ask\"}"}"#,
    ),
    Hears("get_state"),
    Says(
        r#"{"id":@id@,"type":"response","command":"get_state","success":true,"data":{"sessionFile":"/s.jsonl","sessionId":"s"}}"#,
    ),
    Hears("get_available_models"),
    Says(
        r#"{"id":@id@,"type":"response","command":"get_available_models","success":false,"error":"none"}"#,
    ),
    Hears("get_available_thinking_levels"),
    Says(
        r#"{"id":@id@,"type":"response","command":"get_available_thinking_levels","success":false,"error":"none"}"#,
    ),
    Hears("get_state"),
    Says(
        r#"{"id":@id@,"type":"response","command":"get_state","success":true,"data":{"sessionFile":"/s.jsonl","sessionId":"s"}}"#,
    ),
    Hears(r#""prompt""#),
    Says(
        r#"{"id":@id@,"type":"response","command":"prompt","success":true,"data":{"disposition":"started"}}"#,
    ),
    Says(r#"{"type":"agent_start"}"#),
    Says(r#"{"type":"message_start","message":{"role":"user","content":"go","timestamp":1}}"#),
    Says(
        r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"Run"}}"#,
    ),
    Says(
        r#"{"type":"tool_execution_start","toolCallId":"c","toolName":"bash","args":{"command":"make"}}"#,
    ),
    Says(
        r#"{"type":"extension_ui_request","id":"d","method":"confirm","title":"make?","message":"x"}"#,
    ),
    Hears("extension_ui_response"),
    Says(
        r#"{"type":"tool_execution_update","toolCallId":"c","toolName":"bash","args":{"command":"make"},"partialResult":{"content":[{"type":"text","text":"a"}],"details":{}}}"#,
    ),
    Hears("clear_queue"),
    Says(
        r#"{"id":@id@,"type":"response","command":"clear_queue","success":true,"data":{"steering":[],"followUp":[]}}"#,
    ),
    Hears("abort"),
    Says(
        r#"{"type":"tool_execution_end","toolCallId":"c","toolName":"bash","result":{"content":[{"type":"text","text":"Command aborted"}],"details":{}},"isError":true}"#,
    ),
    Says(r#"{"type":"agent_settled","aborted":true}"#),
    Says(r#"{"id":@id@,"type":"response","command":"abort","success":true}"#),
    HearsTheEnd,
    Says(r#"{"type":"agent_start"}"#),
];
