// The report: a map as an object, for other programs.

package fleetmap

// Report is a fleet with its HyperNodes as a map shows them, each above those that are in it.
type Report struct {
	// Job that was asked about; missing for the fleet.
	Job        *Job        `json:"job,omitempty"`
	Total      Counts      `json:"total"`
	HyperNodes []HyperNode `json:"hyperNodes,omitempty"`
	Nodes      []Node      `json:"nodes"`
	// Unread are the sources that could not be read, in words.
	Unread []string `json:"unread,omitempty"`
}

// HyperNode is a line of a map.
type HyperNode struct {
	Name string `json:"name"`
	Tier int32  `json:"tier"`
	// Parent is the closest HyperNode above it.
	Parent string `json:"parent,omitempty"`
	// Home reports whether the job, or a partition of it, has its home here.
	Home   bool `json:"home,omitempty"`
	Counts `json:",inline"`
}

// ReportOf is the report of a fleet, and of a job in it, if there is one.
func ReportOf(f *Fleet, job *Job) Report {
	m := newMap(f, job)
	return Report{Job: job, Total: m.all.Counts, Nodes: f.Nodes, Unread: f.Unread, HyperNodes: m.flattened(nil, "", m.roots)}
}

func (m *fleetMap) flattened(out []HyperNode, parent string, branches []*branch) []HyperNode {
	for _, b := range branches {
		if b.Name != outside {
			out = append(out, HyperNode{Name: b.Name, Tier: b.Tier, Parent: parent, Home: m.isHome(b.Name), Counts: b.Counts})
			out = m.flattened(out, b.Name, b.children)
		}
	}
	return out
}
