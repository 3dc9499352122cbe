package supervisor

import (
	"os"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/supervisor/durable"
)

// envMaster is the variable by which PyTorch finds rank 0.
const envMaster = "MASTER_ADDR"

// hostsFile is what resolvers ask before DNS. The kubelet makes one, which says so.
const (
	hostsFile       = "/etc/hosts"
	byKubeletHeader = "# Kubernetes-managed hosts file"
)

// Lines around those of the manager in hostsFile.
const (
	hostsBegin = "# lockstep: ranks that spares have taken over"
	hostsEnd   = "# lockstep: end"
)

// withAddress has the program find rank 0 by its address where a spare has taken that over: DNS may give its name to another pod.
func withAddress(environ []string, hosts string) []string {
	at := slices.IndexFunc(environ, func(v string) bool { return strings.HasPrefix(v, envMaster+"=") })
	if at < 0 {
		return environ
	}
	master := strings.TrimPrefix(environ[at], envMaster+"=")
	for line := range strings.Lines(hosts) {
		if fields := strings.Fields(line); slices.ContainsFunc(fields, func(name string) bool { return master == name || strings.HasPrefix(master, name+".") }) {
			return with(environ, envMaster, fields[0])
		}
	}
	return environ
}

// keepHosts has the container's programs find ranks that spares have taken over by name. Where it may not write the file, as another user
// than root, the log says so, and DNS knows no more than the pods' names.
func (s *supervisor) keepHosts(hosts string) {
	own, _ := os.Hostname()
	hosts = withoutName(hosts, own)
	was, err := os.ReadFile(hostsFile)
	if err == nil && strings.Contains(string(was), byKubeletHeader) { // and no file of the node's
		if now := hostsWith(string(was), hosts); now != string(was) {
			err = durable.Overwrite(hostsFile, []byte(now))
		}
	}
	if err != nil && hosts != "" {
		s.Log.Warn("The names of ranks that spares have taken over are not in the hosts file: only MASTER_ADDR is an address", "error", err)
	}
}

// withoutName leaves out the lines of a name, which is the container's own: what it listens on is its own address.
func withoutName(lines, name string) string {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		if !slices.Contains(strings.Fields(line), name) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// hostsWith is a hosts file that begins with lines in place of those that it had of the manager's.
func hostsWith(file, lines string) string {
	if before, rest, found := strings.Cut(file, hostsBegin+"\n"); found {
		_, after, _ := strings.Cut(rest, hostsEnd+"\n")
		file = before + after
	}
	if lines == "" {
		return file
	}
	return hostsBegin + "\n" + lines + hostsEnd + "\n" + file
}
