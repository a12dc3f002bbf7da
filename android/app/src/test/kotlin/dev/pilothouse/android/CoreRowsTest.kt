package dev.pilothouse.android

import androidx.test.core.app.ApplicationProvider
import dev.pilothouse.android.ui.BegunSignIn
import dev.pilothouse.android.ui.Effect
import dev.pilothouse.android.ui.Progress
import dev.pilothouse.android.ui.RequestKey
import dev.pilothouse.android.ui.SignInPage
import dev.pilothouse.android.ui.quickApproval
import dev.pilothouse.core.AnswerDelivery
import dev.pilothouse.core.ChangeRow
import dev.pilothouse.core.Choice
import dev.pilothouse.core.FileAction
import dev.pilothouse.core.HostRow
import dev.pilothouse.core.InboxRow
import dev.pilothouse.core.InboxState
import dev.pilothouse.core.LinkState
import dev.pilothouse.core.LostReason
import dev.pilothouse.core.Mode
import dev.pilothouse.core.OptionEffect
import dev.pilothouse.core.Question
import dev.pilothouse.core.RequestKind
import dev.pilothouse.core.RequestOption
import dev.pilothouse.core.RequestStatus
import dev.pilothouse.core.RiskHint
import dev.pilothouse.core.RowText
import dev.pilothouse.core.SignInSteps
import dev.pilothouse.core.SignedOutRow
import dev.pilothouse.core.SubjectRow
import dev.pilothouse.core.WaitingCounts
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNotNull
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import dev.pilothouse.android.ui.RequestKind as ShownKind
import dev.pilothouse.core.Answer as CoreAnswer

/** What of the core's rows a person is shown, and what of them can be approved. */
@RunWith(RobolectricTestRunner::class)
class CoreRowsTest {
    private val context = ApplicationProvider.getApplicationContext<TestApp>()
    private val accept = RequestOption("accept", "Approve", OptionEffect.ALLOW_ONCE, "this once")
    private val decline = RequestOption("decline", "Deny", OptionEffect.DENY, "")

    private fun subject(changes: List<ChangeRow> = emptyList(), questions: List<Question> = emptyList(), unreadable: Boolean = false) = SubjectRow(
        command = "cargo publish".takeIf { changes.isEmpty() && questions.isEmpty() }, cwd = "/src", changes = changes, reach = emptyList(),
        reason = null, text = null, questions = questions, options = listOf(accept, decline), incomplete = false, unreadable = unreadable,
    )

    private fun row(subject: SubjectRow = subject(), kind: RequestKind = RequestKind.COMMAND, verified: Boolean = true) = InboxRow(
        host = "h1", hostName = "wren", thread = "t1", threadTitle = "Publish", workspace = "demo", agent = "codex", request = "r1",
        contentHash = "hash", kind = kind, title = "Run a command", subject = subject, rawSubject = """{"command":"cargo publish"}""",
        shown = "cargo publish", hiddenRevealed = false, verified = verified, oneTapAllowed = true, defaultToNo = false,
        hints = listOf(RiskHint.LEAVES_SANDBOX), askedBefore = 0u, openedAtMs = 5uL, expiresAtMs = null, state = InboxState.Pending,
        refused = null, online = true,
    )

    private fun change(diff: RowText) = ChangeRow("a.txt", FileAction.ADD, null, diff)
    private fun text(text: String, bytes: Int = text.toByteArray().size, dropped: Int = 0, tail: String? = null) =
        RowText(text = text, from = 0uL, bytes = bytes.toULong(), tail = tail, hash = null, dropped = dropped.toULong())

    @Test fun a_row_is_shown_as_it_is() {
        val item = row().toItem(context)
        assertEquals("h1/t1/r1", item.id)
        assertEquals(listOf("wren", "demo", "Publish"), listOf(item.host, item.workspace, item.thread))
        assertEquals(listOf("Reaches beyond the workspace."), item.hints)
        assertEquals(Progress.Waiting, item.progress)
        assertEquals("accept", item.quickApproval()?.id)
    }

    @Test fun a_text_that_is_not_proven_can_only_be_refused() {
        val item = row(verified = false).toItem(context)
        assertEquals(listOf(Effect.Deny), item.options.map { it.effect })
        assertNull(item.quickApproval())
    }

    @Test fun what_this_version_cannot_read_in_full_is_shown_as_it_came_and_never_one_tap() {
        val item = row(subject(unreadable = true)).toItem(context)
        assertEquals(ShownKind.Unknown, item.kind)
        assertEquals("""{"command":"cargo publish"}""", item.subject.revealed.text)
        assertNull(item.quickApproval())
    }

    @Test fun a_diff_of_which_only_a_part_is_held_is_never_one_tap() {
        val kind = RequestKind.FILE_CHANGE
        assertNotNull(row(subject(listOf(change(text("+ä")))), kind).toItem(context).quickApproval())
        for (cut in listOf(text("+a", bytes = 900), text("+a", dropped = 7), text("+a", tail = "+z"))) {
            val item = row(subject(listOf(change(cut))), kind).toItem(context)
            assertTrue(item.subject.incomplete)
            assertNull(item.quickApproval())
        }
    }

    @Test fun a_question_is_shown_with_its_choices_and_where_it_can_be_answered() {
        val question = Question("q", "Database", "Which one?", listOf(Choice("staging", null), Choice("live", null)), false, false, false, false)
        val item = row(subject(questions = listOf(question)), RequestKind.USER_INPUT).toItem(context)
        assertEquals(ShownKind.Question, item.kind)
        assertEquals("Database\nWhich one?\n- staging\n- live", item.subject.text)
        assertEquals("This app cannot answer questions yet. Answer it on another device.", item.hints.last())
    }

    @Test fun a_sign_in_that_was_begun_names_its_request_and_its_page_only_where_it_is_proven() {
        val steps = SignInSteps("https://auth.example.org/device", "ABCD-1234")
        val asked = row(subject().copy(signIn = steps), RequestKind.AUTH)
        fun begun(row: SignedOutRow, asked: InboxRow?) = row.toNotice(host, asked).begun
        assertNull(begun(signedOut, null))
        val open = signedOut.copy(request = "r1")
        assertEquals(BegunSignIn(null, null), begun(open, null))
        val key = RequestKey("h1", "t1", "r1")
        assertEquals(BegunSignIn(key, SignInPage(steps.url, steps.code)), begun(open, asked))
        assertEquals(BegunSignIn(key, null), begun(open, asked.copy(verified = false)))
        assertEquals(BegunSignIn(key, null), begun(open, row()))
    }

    private val signedOut = SignedOutRow("codex", "codex", 1uL, "t1", listOf("codex login"), canSignIn = true)
    private val host = HostRow(
        host = "h1", name = "wren", addresses = emptyList(), link = LinkState.Synchronised, lastSeenMs = null, waiting = WaitingCounts(0u, 0u),
        scopes = emptyList(), agents = emptyList(), workspaces = emptyList(), defaultMode = Mode.ASK, direct = null,
    )

    @Test fun an_answer_on_its_way_is_never_shown_as_given() {
        val answer = CoreAnswer.Choose("accept", null)
        val words = listOf(false to true, false to false, true to true).map { (onHost, online) ->
            val item = row().copy(state = InboxState.Sending(answer, onHost), online = online).toItem(context)
            assertEquals(Progress.Sending, item.progress)
            item.status
        }
        assertEquals(listOf("Sending …", "Saved. Sent as soon as the host can be reached.", "The host has your answer. The agent is being told …"), words)
    }

    @Test fun every_end_has_words() {
        val options = row().toItem(context).options
        fun answered(answer: CoreAnswer?) = RequestStatus.Answered(answer, "d2", AnswerDelivery.CONFIRMED, 9uL)
        val ends = mapOf(
            answered(CoreAnswer.Choose("decline", null)) to "Answered: Deny",
            answered(CoreAnswer.Choose("unheard", null)) to "Answered: unheard",
            answered(CoreAnswer.Reply(emptyList())) to "Answered: in words",
            answered(null) to "Answered: at the agent itself",
            RequestStatus.Withdrawn to "Withdrawn: the agent no longer asks.",
            RequestStatus.Expired to "Expired: nobody answered in time.",
            RequestStatus.Lost(LostReason.AGENT_EXITED, null) to "Lost: the agent ended before it had an answer.",
        )
        for ((status, words) in ends) assertEquals(words, status.words(context, options))
    }
}
