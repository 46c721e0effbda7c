//go:build !unix

package change

import "time"

func cpuTime() time.Duration { return 0 }
