# A tiny data-parallel run, as mpirun starts it: rank 0 saves, all load, and the losses have the same bits however often the run was
# disturbed.
import os
import time

from mpi4py import MPI

STEPS = int(os.environ.get("STEPS", "60"))
EVERY = int(os.environ.get("CHECKPOINT_EVERY", "10"))
STEP_TIME = float(os.environ.get("STEP_TIME", "0.05"))
SHARED = os.environ.get("SHARED", "/shared")

world = MPI.COMM_WORLD
rank = world.Get_rank()


def say(event, **fields):
    print(" ".join([f"event={event}", f"rank={rank}"] + [f"{k}={v}" for k, v in fields.items()]), flush=True)


def save(step, weight):
    """Write, fsync, rename: what is there under its name is whole."""
    path = f"{SHARED}/step-{step}"
    with open(path + ".tmp", "w") as f:
        f.write(weight.hex())
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".tmp", path)
    say("checkpoint", step=step)


def resume():
    """All load the step that rank 0 has chosen."""
    steps = [int(n[5:]) for n in os.listdir(SHARED) if n.startswith("step-") and not n.endswith(".tmp")] if rank == 0 else []
    step = world.bcast(max(steps, default=0), root=0)
    if step == 0:
        return 0, 0.0
    with open(f"{SHARED}/step-{step}") as f:
        return step, float.fromhex(f.read())


done, weight = resume()
say("resumed", step=done)
for step in range(done + 1, STEPS + 1):
    sample = 1 + (step * world.Get_size() + rank) % 7
    gradients = world.allgather((weight - 3.0) * sample)  # the sum is in the order of the ranks
    weight -= 0.01 * sum(gradients) / len(gradients)
    say("step", step=step, bits=weight.hex())
    if rank == 0 and (step % EVERY == 0 or step == STEPS):
        save(step, weight)
    time.sleep(STEP_TIME)
say("done", step=STEPS, bits=weight.hex())
