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

// keepPodLogs begins to keep the logs of pods on all nodes.
func keepPodLogs(g *Ground) (*podLogs, error) {
	var nodes []string
	for rack := range g.Nodes.Racks {
		for index := range g.Nodes.NodesPerRack {
			logs, err := g.NodeLogs(g.Nodes.Node(rack, index))
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, filepath.Join(logs, "pods"))
		}
	}
	l := &podLogs{folder: filepath.Join(g.dir, "pods"), stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { l.done <- l.link(nodes) }()
	return l, nil
}

// Stop ends it, and returns what went wrong.
func (l *podLogs) Stop() error {
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
