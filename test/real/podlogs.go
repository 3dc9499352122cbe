// The logs of pods, kept beyond the pods: what supervisors have logged is judged at the end.

package real

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// lookEvery is how often the nodes are looked at for new logs. A kubelet keeps those of a pod as long as the pod.
const lookEvery = 200 * time.Millisecond

// podLogs links the log of each container into a folder that has them as a kubelet does.
type podLogs struct {
	folder string
	stop   chan struct{}
	done   chan error
}

// KeepPodLogs begins to keep the logs of pods on all nodes, for CheckHistory.
func (g *Ground) KeepPodLogs() error {
	var nodes []string
	for _, node := range g.Nodes.NodeNames() {
		logs, err := g.NodeLogs(node)
		if err != nil {
			return err
		}
		nodes = append(nodes, filepath.Join(logs, "pods"))
	}
	g.logs = &podLogs{folder: filepath.Join(g.dir, "pods"), stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { g.logs.done <- g.logs.link(nodes) }()
	g.History.PodLogs = g.logs.folder
	return nil
}

// CheckHistory ends KeepPodLogs, and returns what went wrong with it and each promise that the manager has not kept by then.
func (g *Ground) CheckHistory() error {
	return errors.Join(g.logs.end(), g.History.Check())
}

// end ends it, and returns what went wrong.
func (l *podLogs) end() error {
	close(l.stop)
	return <-l.done
}

func (l *podLogs) link(nodes []string) error {
	for {
		for _, node := range nodes {
			if err := l.linkNode(node); err != nil {
				return err
			}
		}
		select {
		case <-l.stop:
			return nil
		case <-time.After(lookEvery):
		}
	}
}

// linkNode links the logs of one node. A pod may go meanwhile.
func (l *podLogs) linkNode(node string) error {
	logs, err := filepath.Glob(filepath.Join(node, "*", "*", "*.log"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		name, err := filepath.Rel(node, log)
		if err != nil {
			return err
		}
		to := filepath.Join(l.folder, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.Link(log, to); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
