// What is expected, as a NodeHealth keeps it while no agent runs: a line for each GPU and port,
// and one for the NVLinks of a GPU.

package health

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxExpected is how many lines a NodeHealth holds (nodehealth_types.go).
	maxExpected = 256
	// maxLink bounds what is read back as the index of an NVLink.
	maxLink = 1023
)

// folded names entities as reports do, the NVLinks of a GPU in one line by ranges of their
// indices, such as nvlink/GPU-3f1c/0-5,7. GPUs come first: where there are more lines than a
// NodeHealth holds, they are kept.
func folded(entities []Entity) []string {
	var lines []string
	links := map[string][]int{}
	for _, e := range entities {
		if gpu, index, ok := linkOf(e); ok {
			links[gpu] = append(links[gpu], index)
			continue
		}
		lines = append(lines, entityName(e))
	}
	for gpu, indices := range links {
		slices.Sort(indices)
		lines = append(lines, entityName(Entity{KindNVLink, gpu + "/" + ranges(indices)}))
	}
	slices.Sort(lines) // gpu, nic, nvlink
	return lines[:min(len(lines), maxExpected)]
}

// linkOf is the GPU and the index of an NVLink.
func linkOf(e Entity) (gpu string, index int, ok bool) {
	gpu, text, _ := strings.Cut(e.ID, "/")
	index, err := strconv.Atoi(text)
	return gpu, index, e.Kind == KindNVLink && err == nil && index >= 0 && index <= maxLink
}

// ranges writes ascending numbers: 0-5,7.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := strconv.Itoa(numbers[i])
		if last > i {
			part += "-" + strconv.Itoa(numbers[last])
		}
		parts, i = append(parts, part), last+1
	}
	return strings.Join(parts, ",")
}

// unfolded reads lines back. What it cannot read is expected by nobody.
func unfolded(lines []string) []Entity {
	var entities []Entity
	for _, line := range lines {
		e, ok := parseEntity(line)
		if !ok {
			continue
		}
		gpu, indices, _ := strings.Cut(e.ID, "/")
		if e.Kind != KindNVLink || strings.Trim(indices, "0123456789-,") != "" {
			entities = append(entities, e)
			continue
		}
		for part := range strings.SplitSeq(indices, ",") {
			for i := range span(part) {
				entities = append(entities, Entity{KindNVLink, fmt.Sprintf("%s/%d", gpu, i)})
			}
		}
	}
	return entities
}

// span goes through the numbers of 3 or 0-5.
func span(text string) func(func(int) bool) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.Atoi(first)
	to, errTo := strconv.Atoi(last)
	return func(yield func(int) bool) {
		if err != nil || errTo != nil || from < 0 || to > maxLink {
			return
		}
		for i := from; i <= to; i++ {
			if !yield(i) {
				return
			}
		}
	}
}
