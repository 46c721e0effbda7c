package change

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFixedWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Delivery
		c, err := New(Config{Observe: func(d Delivery) { got = append(got, d) }})
		if err != nil {
			t.Fatal(err)
		}
		k := Key{"dc", "a"}
		for i := range 5 {
			if _, err := c.Offer(t.Context(), Event{Key: k, Items: []Item{{ID: "r1", Content: string(rune('a' + i))}}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(90 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(got) != 1 || got[0].Delay != DefaultWindow || got[0].Merged != 4 || got[0].Now.Items[0].Content != "e" {
			t.Errorf("got %+v, want one delivery after 500 ms that absorbed 4 events", got)
		}
		if _, err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
