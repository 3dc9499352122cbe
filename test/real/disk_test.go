// A disk that all ranks of a gang write to, and that does not answer.

package real

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// metricsPath is where the ranks have the disk.
const metricsPath = "/metrics"

// holdDisk mounts an image, prints its device, and takes both away when its input ends, as it does with the test, however that ends. A process that waits for a frozen disk cannot
// be killed.
const holdDisk = `mount -o loop "$1" "$2" && findmnt --noheadings --output SOURCE "$2" && read -r _; fsfreeze --unfreeze "$2" 2>&-; umount "$2"`

// disk is a file system of a device of its own.
type disk struct {
	t      *testing.T
	folder string
	frozen bool
}

// newDisk mounts a disk on all nodes, and has a job's ranks see it.
func (s *scenario) newDisk() *disk {
	s.t.Helper()
	dir := s.t.TempDir()
	image, d := filepath.Join(dir, "image"), &disk{t: s.t, folder: filepath.Join(dir, "disk")}
	s.must(os.Mkdir(d.folder, 0o755))
	s.must(os.WriteFile(image, nil, 0o600))
	s.must(os.Truncate(image, 64<<20))
	s.must(run("mkfs.ext4", "-q", image))
	device := s.hold(image, d.folder)
	nodes := ground.Nodes.NodeNames()
	s.must(ground.MountDevice(s.ctx, device, metricsPath, nodes...))
	s.t.Cleanup(func() { s.must(ground.UnmountDevice(s.ctx, metricsPath, nodes...)) })
	for i := range s.Job.Spec.Tasks {
		pod := &s.Job.Spec.Tasks[i].Template.Spec
		pod.Volumes = append(pod.Volumes, hostFolder("metrics", metricsPath))
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "metrics", MountPath: metricsPath})
	}
	s.setEnv("METRICS", metricsPath)
	return d
}

// hold mounts an image for as long as the test lasts, and returns its device.
func (s *scenario) hold(image, folder string) string {
	s.t.Helper()
	holder := exec.Command("sh", "-c", holdDisk, "sh", image, folder)
	holder.SysProcAttr, holder.Stderr = &syscall.SysProcAttr{Setsid: true}, os.Stderr // an interrupt that is typed is not for it
	life, err := holder.StdinPipe()
	s.must(err)
	out, err := holder.StdoutPipe()
	s.must(err)
	s.must(holder.Start())
	s.t.Cleanup(func() {
		s.must(life.Close())
		s.must(holder.Wait())
	})
	device, err := bufio.NewReader(out).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s was not mounted", image)
	}
	s.must(err)
	return strings.TrimSpace(device)
}

// freeze has every write wait in the kernel until thaw.
func (d *disk) freeze() {
	d.t.Helper()
	d.frozen = true
	if err := run("fsfreeze", "--freeze", d.folder); err != nil {
		d.t.Fatal(err)
	}
}

// thaw has a disk that is frozen answer.
func (d *disk) thaw() {
	d.t.Helper()
	if !d.frozen {
		return
	}
	d.frozen = false
	if err := run("fsfreeze", "--unfreeze", d.folder); err != nil {
		d.t.Error(err)
	}
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}

// setEnv sets a variable of every rank.
func (s *scenario) setEnv(name, value string) {
	for i := range s.Job.Spec.Tasks {
		container := &s.Job.Spec.Tasks[i].Template.Spec.Containers[0]
		others := slices.DeleteFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == name })
		others = append(others, corev1.EnvVar{Name: name, Value: value})
		container.Env = others
	}
}

// writtenBy has ranks, and no others, write to the disk at each step.
func (g *stalledGang) writtenBy(ranks []int) {
	g.t.Helper()
	var files []string
	for rank := range g.Ranks {
		file := filepath.Join(g.disk.folder, "rank-"+strconv.Itoa(rank))
		if !slices.Contains(ranks, rank) {
			g.must(os.RemoveAll(file))
			continue
		}
		g.must(os.WriteFile(file, nil, 0o644))
		files = append(files, file)
	}
	g.must(await(g.ctx, "the ranks write to the disk", func(context.Context) (bool, error) {
		return !slices.ContainsFunc(files, func(file string) bool {
			info, err := os.Stat(file)
			return err != nil || info.Size() == 0
		}), nil
	}))
}

// blocked are those of some ranks that wait for the disk. The others of them have written before it was frozen, and wait for these.
func (g *stalledGang) blocked(ranks []int) []int {
	g.t.Helper()
	waits := func(rank int) bool {
		pids, err := ground.Programs(g.ctx, g.key(rank))
		g.must(err)
		return slices.ContainsFunc(pids, func(pid int) bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err == nil && strings.HasPrefix(string(stat[strings.LastIndex(string(stat), ")")+1:]), " D")
		})
	}
	return slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return !waits(rank) })
}
