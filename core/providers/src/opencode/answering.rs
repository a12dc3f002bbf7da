//! A person's answers on their way to opencode.

use super::{codec::Codec, driver::OpencodeRuntime, replies::CallError};
use crate::{
    contract::{RespondError, Response},
    rpc::asked::AnswerProblem,
};
use pilothouse_domain::request::{AnswerDelivery, RequestKind};

impl OpencodeRuntime {
    /// What the codec makes of an answer, if it is one to what was shown.
    pub(super) fn taken<T>(
        &self,
        response: &Response,
        take: impl FnOnce(&mut Codec) -> Result<T, AnswerProblem>,
    ) -> Result<T, RespondError> {
        let request = &response.request;
        let taken = self.link.with_codec(|codec| {
            let same =
                codec.is_same_request(request, &response.thread, response.kind, &response.subject);
            same.then(|| take(codec))
        });
        match taken {
            Some(Ok(taken)) => Ok(taken),
            Some(Err(AnswerProblem::Unfit { problem })) => Err(RespondError::Unfit { problem }),
            None | Some(Err(AnswerProblem::NotPending { .. })) => match self.process().has_exited()
            {
                true => Err(RespondError::Lost),
                false => Err(RespondError::NotPending),
            },
        }
    }

    pub(super) async fn give(&self, response: Response) -> Result<AnswerDelivery, RespondError> {
        if response.kind == RequestKind::Auth {
            return self.end_sign_in(response).await;
        }
        let request = &response.request;
        let call = self.taken(&response, |codec| codec.answer(request, &response.answer))?;
        match self.link.call(call).await {
            Ok(_) => Ok(AnswerDelivery::Confirmed),
            Err(CallError::NotFound { .. }) => {
                self.link.tell(|codec| codec.not_pending(request)).await;
                Err(RespondError::NotPending)
            }
            // Whichever is seen first, the refused connection or the end: who asked is gone.
            Err(CallError::Lost | CallError::Unreachable { .. }) if self.process().has_exited() => {
                Err(RespondError::Lost)
            }
            Err(error) => {
                self.link.with_codec(|codec| codec.not_taken(request));
                match error {
                    CallError::Lost | CallError::Timeout { .. } => {
                        self.link.unsure();
                        Err(RespondError::Lost)
                    }
                    error => Err(RespondError::NotTaken {
                        problem: error.to_string(),
                    }),
                }
            }
        }
    }
}
