// Spinning: GPUs that execute a kernel and move no data, as they do while they wait in a collective operation.

package health

import "time"

// DCGM_FI_DEV_GPU_UTIL and DCGM_FI_DEV_MEM_COPY_UTIL (dcgm_fields.h): in how many percent of NVML's last sample, a second at most, a kernel was executed, and the
// GPU's memory read or written (nvmlUtilization_t). NVML has neither in MIG mode.
const fieldKernels, fieldMemory Field = 203, 204

// A kernel that polls for its peers: 96 to 100 %, and about 0 % (github.com/NVIDIA/nccl/issues/2213). One that trains moves data.
const leastKernels, mostMemory = 95, 1

// spinsAfter is how long a GPU has to spin until that is said: what jobs wait for all the time takes less.
const spinsAfter = time.Minute

// spin notes which GPUs spin, and since when. Between polls that are as far apart nothing is known.
func (p *poll) spin() {
	p.next.spinning = nil
	for e, values := range p.sample.Values {
		if e.Kind != KindGPU || !spins(values) {
			continue
		}
		since, before := p.prev.spinning[e.ID]
		if !before || p.sample.Time.Sub(p.prev.Time) >= spinsAfter {
			since = p.sample.Time
		}
		if p.next.spinning == nil {
			p.next.spinning = map[string]time.Time{}
		}
		p.next.spinning[e.ID] = since
	}
}

// spins reports whether a GPU reads as one that waits in a collective does.
func spins(values map[Field]Value) bool {
	kernels, known := values[fieldKernels]
	memory, alsoKnown := values[fieldMemory]
	return known && alsoKnown && !kernels.Blank && !memory.Blank && kernels.Int >= leastKernels && memory.Int <= mostMemory
}

// Spinning are the GPUs that have spun for a minute, by their UUIDs, with since when.
func (s State) Spinning() map[string]time.Time {
	var long map[string]time.Time
	for gpu, since := range s.spinning {
		if s.Time.Sub(since) < spinsAfter {
			continue
		}
		if long == nil {
			long = map[string]time.Time{}
		}
		long[gpu] = since
	}
	return long
}
