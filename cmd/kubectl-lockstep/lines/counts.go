// Numbers of things, and lists of their names.

package lines

import (
	"fmt"
	"strings"
)

// Count is a number of things: "1 node", "2 nodes".
func Count[N int | int32 | int64](n N, thing string) string {
	return fmt.Sprintf("%d %s", n, Plural(n, thing, thing+"s"))
}

// Plural is the first word for 1, and the second for any other number.
func Plural[N int | int32 | int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Names lists the first names of many, and how many more there are.
func Names(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
