// A fleet of jobs that train, of which each program says how far it is: what that costs the manager while nothing happens. The supervisors are real ones in processes of
// their own; Volcano, the kubelets and the programs are played.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/bench/ranks"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

const (
	fleetRanks = 64 // of a job, one for each GPU
	fleetGPUs  = 8  // of a node
	// sayEvery is how often lockstep-run says how far its program is.
	sayEvery = 10 * time.Second
	// connectAtOnce keeps supervisors that all come from this machine below what the manager lets in without a token.
	connectAtOnce = 500
	// perAddress is how many connections go to one of the manager's addresses: Linux has 28,000 ports for these.
	perAddress = 20_000
	// otherFiles is how many files the manager opens at most that are no connections of supervisors.
	otherFiles = 2000
	// fleetTimeout is enough for a thousand jobs.
	fleetTimeout = time.Hour
	// fleetSettles is how long a fleet is left alone before anything is measured.
	fleetSettles = 2 * time.Minute
)

// fleetBench is this part of a run.
type fleetBench struct {
	*played
	pool cluster.Topology
	// ranks are those of all jobs, one job after the other.
	ranks     []ranks.Rank
	processes []*ranks.Process
}

// allowFiles lets this process, and those that it starts, have as many files open as there are connections.
func allowFiles(connections int) error {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	want := uint64(connections + otherFiles)
	if files.Cur >= want {
		return nil
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: want, Max: max(want, files.Max)}); err != nil {
		return fmt.Errorf("%d connections need %d open files: the hard limit is %d, which a process with CAP_SYS_RESOURCE may raise; -fleet-sharing needs fewer: %w", connections, want, files.Max, err)
	}
	return nil
}

// fleetPool has room for the largest fleet.
func fleetPool(sizes counts) cluster.Topology {
	racks := slices.Max(sizes)
	return cluster.Topology{Name: "fleet", Racks: racks, NodesPerRack: fleetRanks / fleetGPUs, GPUsPerNode: fleetGPUs, Tiers: tiersOf(racks)}
}

// measureFleet takes the figures of fleets of so many jobs, one after the other.
func (p *played) measureFleet(ctx context.Context, sizes counts) (err error) {
	sizes = slices.Compact(slices.Sorted(slices.Values(sizes)))
	f := &fleetBench{played: p, pool: fleetPool(sizes)}
	defer func() {
		for _, p := range f.processes {
			err = errors.Join(err, p.Stop())
		}
	}()
	for _, size := range sizes {
		if err := f.grow(ctx, size); err != nil {
			return fmt.Errorf("%d jobs: %w", size, err)
		}
		if err := f.observe(ctx); err != nil {
			return fmt.Errorf("%d jobs: %w", size, err)
		}
	}
	return nil
}

// job is the i-th of the fleet.
func (f *fleetBench) job(i int) *v1alpha1.TrainingJob {
	return oneGPU(&gang{name: fmt.Sprintf("fleet-%d", i), pods: fleetRanks, pool: f.pool})
}

// oneGPU is a gang whose ranks have a GPU each, and a supervisor.
func oneGPU(g *gang) *v1alpha1.TrainingJob {
	job := g.supervised().(*v1alpha1.TrainingJob)
	one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	job.Spec.Tasks[0].Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	return job
}

// grow starts jobs until there are so many, and connects their supervisors.
func (f *fleetBench) grow(ctx context.Context, jobs int) error {
	first := len(f.ranks) / fleetRanks
	f.ranks = append(f.ranks, make([]ranks.Rank, (jobs-first)*fleetRanks)...)
	err := parallel(jobs-first, func(i int) error {
		i += first
		described, err := f.start(ctx, f.job(i), sequence, func(rank int) string { return f.pool.Node(i, rank/fleetGPUs) })
		copy(f.ranks[i*fleetRanks:], described)
		return err
	})
	if err != nil {
		return err
	}
	say("fleet: the pods of %d jobs run", jobs)
	described := &ranks.Gang{ServerName: managerHost, Ranks: f.ranks[first*fleetRanks:], Sharing: f.options.fleetSharing, AtOnce: connectAtOnce, SayEvery: sayEvery}
	if described.Addresses, err = f.addresses(len(f.ranks)); err != nil { // connections of earlier jobs have taken few ports of each
		return err
	}
	process, err := ranks.Start(ctx, described, fleetTimeout)
	if err != nil {
		return err
	}
	f.processes = append(f.processes, process)
	say("fleet: the supervisors of %d jobs are connected", jobs)
	return f.awaitTraining(ctx)
}

// awaitTraining waits until each job says a step.
func (f *fleetBench) awaitTraining(ctx context.Context) error {
	for i := range len(f.ranks) / fleetRanks {
		job := f.job(i)
		err := wait.PollUntilContextTimeout(ctx, time.Second, fleetTimeout, true, func(ctx context.Context) (bool, error) {
			err := f.cluster.Client().Get(ctx, client.ObjectKeyFromObject(job), job)
			return job.Status.State == v1alpha1.StateRunning && job.Status.Progress != nil && job.Status.Progress.Step != nil, err
		})
		if err != nil {
			return fmt.Errorf("waiting until %s trains, which is %+v: %w", job.Name, job.Status, err)
		}
	}
	return nil
}

// observe takes down what a fleet that trains costs for some time.
func (f *fleetBench) observe(ctx context.Context) error {
	if err := sleep(ctx, fleetSettles); err != nil {
		return err
	}
	r := &fleetResults{jobs: len(f.ranks) / fleetRanks, lasted: f.options.fleetFor}
	reported, err := f.reports(ctx)
	if err != nil {
		return err
	}
	mark, ours, theirs := f.audit.mark(), f.processor(operator.Name), f.processor(cluster.APIServer)
	if err := sleep(ctx, r.lasted); err != nil {
		return err
	}
	if r.reports, err = f.reports(ctx); err != nil {
		return err
	}
	r.reports -= reported
	if r.writes, err = f.audit.writes(mark); err != nil {
		return err
	}
	r.processor, r.server, r.memory = f.processor(operator.Name)-ours, f.processor(cluster.APIServer)-theirs, f.memory()
	f.results.fleet = append(f.results.fleet, r)
	say("fleet: %s", r)
	return nil
}

// reports are how many the manager has received so far. It is an error where it does not hear every rank.
func (f *fleetBench) reports(ctx context.Context) (int, error) {
	text, err := f.scrape(ctx)
	if err != nil {
		return 0, err
	}
	if connected := metric(text, "lockstep_connected_supervisors"); connected != len(f.ranks) {
		return 0, fmt.Errorf("the manager hears %d supervisors of %d", connected, len(f.ranks))
	}
	return metric(text, "lockstep_supervisor_reports_total"), nil
}

// scrape reads the manager's metrics.
func (b *bench) scrape(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.metrics+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("read the manager's metrics: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("read the manager's metrics: %w", err)
	}
	return string(text), nil
}

// metric is the sum of all series of a metric.
func metric(text, name string) int {
	sum := 0.0
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if number, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(series, name+"{") {
			sum += number
		}
	}
	return int(sum)
}
