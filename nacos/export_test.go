package nacos

import "time"

// raceEnabled tells that the race detector is on.
const raceEnabled = sdkKeys == 0

// RaceEnabled is the same for tests outside the package.
const RaceEnabled = raceEnabled

// AwaitSDK waits for SDK clients that linger after their store was closed.
func AwaitSDK() {
	for end := time.Now().Add(40 * time.Second); sdkLiving.Load() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// Eager makes a store open SDK clients at once, also where the race detector is
// on. To be called before Watch.
func Eager(s *Store) *Store {
	if sdkSafe {
		s.sdk.limit.Store(32)
	}
	s.sdk.patience.Store(0)
	return s
}

// PlainUnderRace takes that back where the race detector is on, for tests that
// make the SDK reconnect.
func PlainUnderRace(s *Store) {
	if raceEnabled {
		s.sdk.limit.Store(0)
	}
}

// SDKLimit is how many of n configs have an SDK client in the end.
func SDKLimit(n int) int {
	if sdkSafe {
		return min(n, 32)
	}
	return 0
}
