"""Unproven losses: how far a worker believes that a fragment without a result is lost.

A timer that runs out, and a result that comes before that of an earlier fragment, are signs of a
loss, but no proof. A slower worker holds up everything that is in flight, for a time that no round
trip of before can tell; and results come by different ways, through a switch alone or through its
server. To send all of it again would fill links and server with what nobody lacks.

So sending again is a guess. Without proof that packets get lost there is one at a time, like TCP's
tail loss probes (RFC 8985) and QUIC's probe timeouts (RFC 9002), and the time to the next doubles,
up to that of the longest backoff: after a time in which everything was lost, full queues before it
have made round trips long, and the next guess, which gives the proof, must not wait for many.
Proof is a result that would not have come otherwise: of a sum that lacked a worker until that one
sent again (server_store.SENT_AGAIN), or one that was served again to this worker. It pays for some
windows of guesses, so on links that lose packets guesses are believed.

A fixed timeout is believed: who sets it says after what time a fragment is lost."""

from __future__ import annotations

from p4fabric.simulate.jit import njit

from testbed.protocols.send_scoreboard import doubled_ns
from testbed.protocols.worker_state import patience_ns, retry_ns

PAID_WINDOWS = 4  # of guesses after a proof of a loss
MOST_DOUBTS = 4  # doublings of the time between guesses that nothing has paid for


@njit(cache=True)
def are_believed(worker):
    """True if guesses are made at once, as many as have been paid for."""
    return worker.state.guesses > 0 or worker.config.timeout_ns > 0


@njit(cache=True)
def not_before(worker):
    """Time of the next guess that is allowed; ns since the run's start."""
    return 0 if are_believed(worker) else worker.state.guess_ns


@njit(cache=True)
def take(worker, now):
    """True if a guess is allowed now; then it is made."""
    state = worker.state
    if now < not_before(worker):
        return False
    if state.guesses > 0:
        state.guesses -= 1
    else:
        state.guess_ns = now + doubled_ns(retry_ns(worker), state.doubts)
        state.doubts = min(state.doubts + 1, MOST_DOUBTS)
    return True


@njit(cache=True)
def prove(worker):
    """A result shows that a packet was lost."""
    state = worker.state
    state.guesses = PAID_WINDOWS * worker.config.window
    state.doubts = 0


@njit(cache=True)
def explain(worker, now):
    """True if results were silent before one that is here because somebody has lost a packet: where
    losses are proven, and for longer than a round trip. To be called once for each result that
    does not say so itself; those that do count as silence.

    What was in flight then waited for somebody's timer. Were it measured, each timer would follow
    the others', and all would grow without end."""
    state = worker.state
    silence = now - state.heard_ns
    state.heard_ns = now
    return state.guesses > 0 and silence > patience_ns(worker)
