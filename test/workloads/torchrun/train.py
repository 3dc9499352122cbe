# A tiny DistributedDataParallel run on CPU with gloo, as an agent of
# `python3 -m torch.distributed.run` starts it. Rank 0 saves, everybody loads, and the
# losses have the same bits however often the run was disturbed.
import functools
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.request

import torch
import torch.distributed as dist

STEPS = int(os.environ.get("STEPS", "60"))
EVERY = int(os.environ.get("CHECKPOINT_EVERY", "10"))
STEP_TIME = float(os.environ.get("STEP_TIME", "0.05"))
WORK_TIME = float(os.environ.get("WORK_TIME", "0"))
SHARED = os.environ.get("SHARED", "/shared")
METRICS = os.environ.get("METRICS")
SURVIVORS_SAVE = "SURVIVORS_SAVE" in os.environ
# How large a checkpoint is beside the model, and how many copies are kept in each folder.
PAD_MIB = int(os.environ.get("PAD_MIB", "0"))
KEEP_COPIES = int(os.environ.get("KEEP_COPIES", "3"))
# Folders of this rank alone, and every how many steps it saves a copy there: /memory=1,/local=5.
COPIES = [(path, int(every)) for path, every in (c.split("=") for c in os.environ.get("COPIES", "").split(",") if c)]


def say(event, **fields):
    pairs = " ".join(f"{k}={v}" for k, v in fields.items())
    print(f"event={event} rank={os.environ['RANK']} {pairs}", flush=True)


def write_progress(**fields):
    """Say how far the run is by the file. One rank does, or each where NCCL is asked, too."""
    file = os.environ.get("LOCKSTEP_PROGRESS_FILE")
    if file and (dist.get_rank() == dist.get_world_size() - 1 or "NCCL_RAS_ADDR" in os.environ):
        with open(file + ".next", "w") as f:
            json.dump(fields, f)
        os.rename(file + ".next", file)


def post_progress(step):
    """Say how far the run is as Hugging Face's trainer does to Kubeflow Trainer."""
    url = os.environ.get("KUBEFLOW_TRAINER_SERVER_URL")
    if url and dist.get_rank() == 0 and "POST_PROGRESS" in os.environ:
        with open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]) as f:
            token = f.read().strip()
        metrics = [{"name": "current_step", "value": str(step)}, {"name": "total_steps", "value": str(STEPS)}]
        status = {"progressPercentage": 100 * step // STEPS, "estimatedRemainingSeconds": 0, "metrics": metrics}
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = json.dumps({"trainerStatus": status}).encode("utf-8")
        with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers, method="POST"), timeout=5) as answer:
            assert answer.status == 200


def write_metrics(step, loss):
    """Append to this rank's file in the folder of METRICS, where it has one."""
    path = f"{METRICS}/rank-{dist.get_rank()}"
    if METRICS and os.path.exists(path):
        with open(path, "a") as f:
            f.write(f"{step} {loss}\n")


@functools.cache
def pad():
    """What makes a checkpoint as large as one of a real model."""
    return torch.arange(PAD_MIB << 17, dtype=torch.float64)


def read(path):
    """Read a checkpoint. A large one is read from its disk, as after a restart of the node, and not from what the kernel has kept of it."""
    with open(path, "rb") as f:
        if PAD_MIB:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return torch.load(f)


def write(folder, model, optimizer, step):
    """Write, fsync, rename: what is there under its name is whole. Several ranks may write the same, and two threads of one."""
    path = f"{folder}/step-{step}.pt"
    partial = f"{path}.{dist.get_rank()}.{threading.get_native_id()}.tmp"
    with open(partial, "wb") as f:
        torch.save({"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "pad": pad()}, f)
        f.flush()
        os.fsync(f.fileno())
    os.rename(partial, path)
    entry = os.open(folder, os.O_RDONLY)
    os.fsync(entry)
    os.close(entry)


def save(model, optimizer, step):
    write(SHARED, model, optimizer, step)
    if PAD_MIB:
        prune(SHARED)
    say("checkpoint", step=step)


def prune(folder):
    for old in sorted(saved(folder))[:-KEEP_COPIES]:
        os.remove(f"{folder}/step-{old}.pt")


def copy(model, optimizer, step):
    """Save this rank's own copies that are due, and keep the last of each folder."""
    for folder, every in COPIES:
        if step % every == 0:
            write(folder, model, optimizer, step)
            prune(folder)


class Survivor:
    """What a rank saves when it cannot go on: the last whole step, which it has all of, as every rank of a data-parallel run. At best no step is made again then."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.lock, self.step = threading.RLock(), 0
        threading.Thread(target=self.await_stop, daemon=True).start()

    def await_stop(self):
        """Save once the rank is asked to end. The main thread may hang in a collective by then, and runs no handler."""
        signal.sigwait({signal.SIGTERM})
        with self.lock:  # until the end: no step is made after the one that is saved
            self.save()
            os._exit(128 + signal.SIGTERM)

    def makes(self, step):
        """Make a step, of which nobody saves a part."""
        with self.lock:
            self.optimizer.step()
            self.step = step

    def save(self):
        with self.lock:
            if self.step and self.step not in saved(SHARED):
                write(SHARED, self.model, self.optimizer, self.step)
                say("survivor-saved", step=self.step)


def saved(folder):
    return [int(n[5:-3]) for n in os.listdir(folder) if n.startswith("step-") and n.endswith(".pt")]


def choose():
    """The step that the manager has found for all ranks, and where this one can read it, if all were told the same, or else the newest that rank 0 sees in the shared folder."""
    told, folder = int(os.environ.get("LOCKSTEP_RESUME_STEP", "0")), os.environ.get("LOCKSTEP_RESUME_FROM")
    if told and not os.path.exists(f"{folder}/step-{told}.pt"):
        told = 0
    range_told = torch.tensor([-told, told])
    count("AllReduce")
    dist.all_reduce(range_told, op=dist.ReduceOp.MAX)
    complete()
    if told and told == -int(range_told[0]) == int(range_told[1]):
        return told, folder
    chosen = torch.tensor([max(saved(SHARED), default=0) if dist.get_rank() == 0 else 0])
    count("Broadcast")
    dist.broadcast(chosen, src=0)
    complete()
    return int(chosen), SHARED


def resume(model, optimizer):
    step, folder = choose()
    began = time.monotonic()
    if step:
        state = read(f"{folder}/step-{step}.pt")
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    seconds = round(time.monotonic() - began, 3)
    for copies, _ in COPIES:  # what is newer is of a run that was given up
        for newer in saved(copies):
            if newer > step:
                os.remove(f"{copies}/step-{newer}.pt")
    say("resumed", step=step, folder=folder, seconds=seconds, epoch=os.environ.get("LOCKSTEP_EPOCH"))
    return step


def spin(*_):
    """Never come back, and use a processor: what SIGUSR1 has a rank do."""
    while True:
        pass


slower = 1


def slow_down(*_):
    """Take three times as long for a step from now on: what SIGUSR2 has a rank do."""
    global slower
    slower = 3


def work(seconds):
    """Use a processor for so long."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


launched = {"Broadcast": 0, "AllReduce": 0}
completed = []  # several threads append to it


def report_launched(address):
    """Tell a stand-in for NCCL's RAS service, when it asks, which collectives this process has launched."""
    host, port = address.rsplit(":", 1)
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=None) as service:
                hello = {"host": service.getsockname()[0], "pid": os.getpid(), "rank": int(os.environ["RANK"])}
                service.sendall(json.dumps(hello).encode() + b"\n")
                for question in service.makefile():
                    service.sendall(json.dumps({"question": int(question), "launched": launched}).encode() + b"\n")
        except OSError:
            pass
        time.sleep(1)


def count(operation):
    launched[operation] += 1


def complete():
    completed.append(None)


def reduce_bucket(_, bucket):
    """Launch what DistributedDataParallel does by itself, and count it."""
    def reduced(done):
        complete()
        return done.value()[0]

    count("AllReduce")
    tensor = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(tensor, async_op=True).get_future().then(reduced)


def play_gpus(folder):
    """Say what the GPUs of this rank would do: execute kernels that move data, or, while a collective is launched and not complete, one that polls for its peers. The processes of
    such a rank use a processor, as CUDA's do."""
    os.makedirs(folder, exist_ok=True)
    while True:
        polls, second = True, time.monotonic() + 1
        while time.monotonic() < second:
            polls = polls and sum(launched.values()) > len(completed)
            if polls:
                work(0.005)
            time.sleep(0.05)
        for gpu in os.environ["NVIDIA_VISIBLE_DEVICES"].split(","):
            with open(f"{folder}/{gpu}.next", "w") as f:
                f.write("100 0" if polls else "90 40")
            os.rename(f"{folder}/{gpu}.next", f"{folder}/{gpu}")


def main():
    signal.signal(signal.SIGUSR1, spin)
    signal.signal(signal.SIGUSR2, slow_down)
    if SURVIVORS_SAVE:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # in all threads that come
    torch.set_num_threads(1)  # the order of the sums does not depend on the machine
    torch.use_deterministic_algorithms(True)
    say("start", pid=os.getpid(), restarts=os.environ.get("TORCHELASTIC_RESTART_COUNT"), world=os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    teacher = torch.randn(8, 1, dtype=torch.float64)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).double()
    # By default DDP rebuilds its buckets after the first step of a process, which changes the
    # order of gloo's sums: a resumed run was seen to end in other last bits than an undisturbed
    # one. With find_unused_parameters the layout stays, and the bits are the same.
    model = torch.nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    if "NCCL_RAS_ADDR" in os.environ:
        threading.Thread(target=report_launched, args=(os.environ["NCCL_RAS_ADDR"],), daemon=True).start()
        model.register_comm_hook(None, reduce_bucket)
    if "PLAY_GPUS" in os.environ:
        threading.Thread(target=play_gpus, args=(f"{SHARED}/gpus",), daemon=True).start()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    survivor = Survivor(model, optimizer) if SURVIVORS_SAVE else None
    try:
        train(model, optimizer, teacher, survivor.makes if survivor else lambda _: optimizer.step())
    except RuntimeError:  # as where a peer is gone
        if survivor:
            survivor.save()
        raise
    say("done", step=STEPS)
    dist.destroy_process_group()


def train(model, optimizer, teacher, make):
    for step in range(resume(model, optimizer) + 1, STEPS + 1):
        # Samples are drawn from the step and the rank alone: no stream to save.
        g = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
        x = torch.randn(16, 8, dtype=torch.float64, generator=g)
        work(WORK_TIME * slower)
        loss = torch.nn.functional.mse_loss(model(x), torch.relu(x @ teacher))
        optimizer.zero_grad()
        loss.backward()
        total = loss.detach().clone()
        count("AllReduce")
        dist.all_reduce(total)
        complete()
        make(step)
        say("step", step=step, loss=float(total), bits=float(total).hex())
        write_metrics(step, float(total))
        copy(model, optimizer, step)
        if step % EVERY == 0 or step == STEPS:
            write_progress(step=step, phase="checkpoint")
            if dist.get_rank() == 0:
                save(model, optimizer, step)
            count("AllReduce")  # NCCL's barrier is one
            dist.barrier()
            complete()
            write_progress(step=step, phase="train", checkpointStep=step)
            post_progress(step)
        time.sleep(STEP_TIME)


if __name__ == "__main__":
    sys.exit(main())
