// The world: what the log has shown of each object so far.

package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// world is what there is after a line of the log.
type world struct {
	now    time.Time
	pods   map[string]*pod // by UID
	jobs   map[string]*trainingJob
	nodes  map[string]*node // by name
	hypers map[string]*hyperNode
	// hyperAt is when a HyperNode was last written, by name.
	hyperAt map[string]time.Time
	// unsure are the jobs, by UID, of which a write was answered with an error, and that the log has not shown since.
	unsure map[string]bool
	// gone is when pods were removed, by UID.
	gone map[string]time.Time
	// ended is when the containers of pods had ended for good, by UID, as their phase says.
	ended map[string]time.Time
	// lost is when spares took over the ranks of pods, by UID, whose nodes were silent or gone.
	lost map[string]time.Time
	// removed are the pods, by UID, that a request has removed: what the log has of them later are answers to earlier requests.
	removed map[string]bool
	// settled is since when a node's taints are what they are.
	settled map[string]time.Time
	// versions are the last resource versions of what was written, by resource, namespace and name.
	versions map[string]string
}

func newWorld() *world {
	return &world{
		pods: map[string]*pod{}, jobs: map[string]*trainingJob{}, nodes: map[string]*node{}, hypers: map[string]*hyperNode{},
		settled: map[string]time.Time{}, versions: map[string]string{}, unsure: map[string]bool{},
		gone: map[string]time.Time{}, ended: map[string]time.Time{}, lost: map[string]time.Time{}, removed: map[string]bool{}, hyperAt: map[string]time.Time{},
	}
}

// change is what a line of the log has done.
type change struct {
	*entry
	// Of the object that it changed, what was and what is; nil where there was or is none.
	podWas, podIs *pod
	jobWas, jobIs *trainingJob
	// same reports whether the request changed nothing.
	same bool
}

// take applies a line to the world.
func (w *world) take(e *entry) (*change, error) {
	w.now = e.done
	c := &change{entry: e}
	if e.isUnsure() {
		w.doubt(e)
		return c, nil
	}
	if len(e.ResponseObject) == 0 && e.Verb != "delete" && e.Verb != "deletecollection" && e.ObjectRef.Subresource != "binding" {
		return c, nil // the policy of the cluster has left it out
	}
	var err error
	switch e.ObjectRef.Resource {
	case "pods":
		err = w.takePod(c)
	case "trainingjobs":
		err = w.takeJob(c)
	case "nodes":
		err = w.takeNode(c)
	case "hypernodes":
		err = w.takeHyperNode(c)
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", e.line, err)
	}
	w.compare(c)
	return c, nil
}

// doubt forgets what a request that was answered with an error may have changed, until the log shows it again.
func (w *world) doubt(e *entry) {
	named := (&metadata{Name: e.ObjectRef.Name, Namespace: e.ObjectRef.Namespace}).names
	switch e.ObjectRef.Resource {
	case "pods":
		w.dropPods(func(p *pod) bool { return e.Verb == "delete" && named(&p.Metadata) })
	case "nodes":
		delete(w.nodes, e.ObjectRef.Name)
	case "trainingjobs":
		for uid, job := range w.jobs {
			w.unsure[uid] = w.unsure[uid] || named(&job.Metadata)
		}
	}
}

// job is a job as it is; nil where there is none, or the log does not tell.
func (w *world) job(uid string) *trainingJob {
	if w.unsure[uid] {
		return nil
	}
	return w.jobs[uid]
}

// compare finds out whether a write has changed its object: the API server keeps the version of one that stays as it was.
func (w *world) compare(c *change) {
	var is struct {
		Metadata metadata `json:"metadata"`
	}
	if c.Verb == "deletecollection" || json.Unmarshal(c.ResponseObject, &is) != nil || is.Metadata.ResourceVersion == "" {
		return
	}
	key := c.ObjectRef.Resource + "/" + is.Metadata.Namespace + "/" + is.Metadata.Name
	c.same = (c.Verb == "update" || c.Verb == "patch") && w.versions[key] == is.Metadata.ResourceVersion
	w.versions[key] = is.Metadata.ResourceVersion
}

func (w *world) takePod(c *change) error {
	switch {
	case c.ObjectRef.Subresource == "binding":
		return w.bind(c)
	case c.Verb == "deletecollection":
		return w.takePods(c)
	case c.ObjectRef.Subresource != "" && c.ObjectRef.Subresource != "status" || len(c.ResponseObject) == 0 || isStatus(c.ResponseObject):
		return nil
	}
	is := &pod{}
	if err := json.Unmarshal(c.ResponseObject, is); err != nil || is.Metadata.UID == "" {
		return err
	}
	w.setPod(c, is)
	return nil
}

// setPod keeps a pod as it is after a request.
func (w *world) setPod(c *change, is *pod) {
	if w.removed[is.Metadata.UID] {
		return
	}
	if c.Verb == "create" { // a deletion whose answer was an error may have been done
		w.dropPods(func(p *pod) bool { return p.Metadata.names(&is.Metadata) })
	}
	c.podWas, c.podIs = w.pods[is.Metadata.UID], is
	delete(w.gone, is.Metadata.UID) // a deletion that was answered with an error was not done
	w.pods[is.Metadata.UID] = is
	if _, known := w.ended[is.Metadata.UID]; is.finished() && !known {
		w.ended[is.Metadata.UID] = w.now
	}
	if c.Verb != "create" && is.Metadata.isGone() {
		c.podIs = nil
		w.removed[is.Metadata.UID] = true
		w.dropPods(func(p *pod) bool { return p == is })
	}
}

// dropPods forgets pods that are gone.
func (w *world) dropPods(which func(*pod) bool) {
	for uid, p := range w.pods {
		if which(p) {
			delete(w.pods, uid)
			w.gone[uid] = w.now
		}
	}
}

// takePods applies the deletion of many pods.
func (w *world) takePods(c *change) error {
	list := struct {
		Items []*pod `json:"items"`
	}{}
	if err := json.Unmarshal(c.ResponseObject, &list); err != nil {
		return err
	}
	for _, is := range list.Items {
		if w.removed[is.Metadata.UID] {
			continue
		}
		w.pods[is.Metadata.UID] = is
		if is.Metadata.isGone() {
			w.removed[is.Metadata.UID] = true
			w.dropPods(func(p *pod) bool { return p == is })
		}
	}
	return nil
}

// bind gives a pod its node.
func (w *world) bind(c *change) error {
	request := struct {
		Target struct {
			Name string `json:"name"`
		} `json:"target"`
	}{}
	if err := json.Unmarshal(c.RequestObject, &request); err != nil {
		return err
	}
	for uid, was := range w.pods {
		if was.Metadata.Name == c.ObjectRef.Name && was.Metadata.Namespace == c.ObjectRef.Namespace {
			is := *was
			is.Spec.NodeName = request.Target.Name
			c.podWas, c.podIs, w.pods[uid] = was, &is, &is
		}
	}
	return nil
}

// noteLost notes the pods whose names are those of spares by now, while their nodes say nothing: what runs there is not known.
func (w *world) noteLost(job *trainingJob) {
	if !slices.ContainsFunc(job.Status.Tasks, func(t taskStatus) bool { return len(t.Pods) > 0 }) {
		return
	}
	for uid, p := range w.pods {
		by, _, moved := job.holder(p)
		if !moved || p.Metadata.Labels["lockstep.dev/job-uid"] != by.job {
			continue
		}
		_, noted := w.lost[uid]
		n := w.nodes[p.Spec.NodeName]
		switch {
		case !by.spare:
			delete(w.lost, uid)
		case !noted && p.works() && (n == nil || !n.ready()):
			w.lost[uid] = w.now
		}
	}
}

func (w *world) takeJob(c *change) error {
	if c.Verb == "deletecollection" || isStatus(c.ResponseObject) {
		w.removeJob(c)
		return nil
	}
	is := &trainingJob{}
	if err := json.Unmarshal(c.ResponseObject, is); err != nil || is.Metadata.UID == "" {
		return err
	}
	if c.Verb == "create" {
		maps.DeleteFunc(w.jobs, func(_ string, j *trainingJob) bool { return j.Metadata.names(&is.Metadata) })
	}
	uid := is.Metadata.UID
	c.jobWas, c.jobIs, w.jobs[uid] = w.jobs[uid], is, is
	delete(w.unsure, uid)
	w.noteLost(is)
	if c.Verb == "delete" && (is.Metadata.DeletionTimestamp == nil || is.Metadata.isGone()) {
		c.jobIs = nil
		delete(w.jobs, uid)
	}
	return nil
}

// removeJob forgets a job whose deletion was answered with a Status: nothing keeps it.
func (w *world) removeJob(c *change) {
	for uid, was := range w.jobs {
		if was.Metadata.Namespace == c.ObjectRef.Namespace && (was.Metadata.Name == c.ObjectRef.Name || c.Verb == "deletecollection") {
			c.jobWas = was
			delete(w.jobs, uid)
		}
	}
}

// isStatus reports whether a request was answered with a Status, and not with an object.
func isStatus(answer json.RawMessage) bool {
	var is struct {
		Kind string `json:"kind"`
	}
	return json.Unmarshal(answer, &is) == nil && is.Kind == "Status"
}

// removed are the names of what a request removed; nil where it removes nothing.
func removed(c *change) ([]string, error) {
	switch c.Verb {
	case "delete": // it is answered with a Status
		return []string{c.ObjectRef.Name}, nil
	case "deletecollection":
		list := struct {
			Items []struct {
				Metadata metadata `json:"metadata"`
			} `json:"items"`
		}{}
		err := json.Unmarshal(c.ResponseObject, &list)
		names := make([]string, 0, len(list.Items))
		for _, one := range list.Items {
			names = append(names, one.Metadata.Name)
		}
		return names, err
	}
	return nil, nil
}

func (w *world) takeNode(c *change) error {
	if gone, err := removed(c); gone != nil || err != nil {
		for _, name := range gone {
			delete(w.nodes, name)
		}
		return err
	}
	is := &node{}
	if err := json.Unmarshal(c.ResponseObject, is); err != nil {
		return err
	}
	name := is.Metadata.Name
	was := w.nodes[name]
	if is.Metadata.UID != "" {
		w.nodes[name] = is
		if was == nil || !reflect.DeepEqual(was.Spec, is.Spec) {
			w.settled[name] = w.now
		}
	}
	return nil
}

func (w *world) takeHyperNode(c *change) error {
	if gone, err := removed(c); gone != nil || err != nil {
		for _, name := range gone {
			delete(w.hypers, name)
			w.hyperAt[name] = w.now
		}
		return err
	}
	is := &hyperNode{}
	if err := json.Unmarshal(c.ResponseObject, is); err != nil {
		return err
	}
	w.hypers[is.Metadata.Name], w.hyperAt[is.Metadata.Name] = is, w.now
	return nil
}
