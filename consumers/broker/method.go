package broker

import (
	"encoding/binary"
	"fmt"
)

// methodID is a class and a method of AMQP 0-9-1 in one number.
type methodID uint32

func (m methodID) class() uint16  { return uint16(m >> 16) }
func (m methodID) method() uint16 { return uint16(m) }

// String is the method's name in the specification, such as "basic.ack".
func (m methodID) String() string {
	if s, ok := methodNames[m]; ok {
		return s
	}
	return fmt.Sprintf("method %d.%d", m.class(), m.method())
}

const (
	connectionStart     methodID = 10<<16 | 10
	connectionStartOk   methodID = 10<<16 | 11
	connectionTune      methodID = 10<<16 | 30
	connectionTuneOk    methodID = 10<<16 | 31
	connectionOpen      methodID = 10<<16 | 40
	connectionOpenOk    methodID = 10<<16 | 41
	connectionClose     methodID = 10<<16 | 50
	connectionCloseOk   methodID = 10<<16 | 51
	connectionBlocked   methodID = 10<<16 | 60
	connectionUnblocked methodID = 10<<16 | 61
	connectionUpdate    methodID = 10<<16 | 70
	connectionUpdateOk  methodID = 10<<16 | 71

	channelOpen    methodID = 20<<16 | 10
	channelOpenOk  methodID = 20<<16 | 11
	channelFlow    methodID = 20<<16 | 20
	channelFlowOk  methodID = 20<<16 | 21
	channelClose   methodID = 20<<16 | 40
	channelCloseOk methodID = 20<<16 | 41

	exchangeDeclare   methodID = 40<<16 | 10
	exchangeDeclareOk methodID = 40<<16 | 11
	exchangeDelete    methodID = 40<<16 | 20
	exchangeDeleteOk  methodID = 40<<16 | 21
	exchangeBind      methodID = 40<<16 | 30
	exchangeBindOk    methodID = 40<<16 | 31
	exchangeUnbind    methodID = 40<<16 | 40
	exchangeUnbindOk  methodID = 40<<16 | 51

	queueDeclare   methodID = 50<<16 | 10
	queueDeclareOk methodID = 50<<16 | 11
	queueBind      methodID = 50<<16 | 20
	queueBindOk    methodID = 50<<16 | 21
	queuePurge     methodID = 50<<16 | 30
	queuePurgeOk   methodID = 50<<16 | 31
	queueDelete    methodID = 50<<16 | 40
	queueDeleteOk  methodID = 50<<16 | 41
	queueUnbind    methodID = 50<<16 | 50
	queueUnbindOk  methodID = 50<<16 | 51

	basicQos          methodID = 60<<16 | 10
	basicQosOk        methodID = 60<<16 | 11
	basicConsume      methodID = 60<<16 | 20
	basicConsumeOk    methodID = 60<<16 | 21
	basicCancel       methodID = 60<<16 | 30
	basicCancelOk     methodID = 60<<16 | 31
	basicPublish      methodID = 60<<16 | 40
	basicReturn       methodID = 60<<16 | 50
	basicDeliver      methodID = 60<<16 | 60
	basicGet          methodID = 60<<16 | 70
	basicGetOk        methodID = 60<<16 | 71
	basicGetEmpty     methodID = 60<<16 | 72
	basicAck          methodID = 60<<16 | 80
	basicReject       methodID = 60<<16 | 90
	basicRecoverAsync methodID = 60<<16 | 100
	basicRecover      methodID = 60<<16 | 110
	basicRecoverOk    methodID = 60<<16 | 111
	basicNack         methodID = 60<<16 | 120

	confirmSelect   methodID = 85<<16 | 10
	confirmSelectOk methodID = 85<<16 | 11

	txSelect   methodID = 90<<16 | 10
	txCommit   methodID = 90<<16 | 20
	txRollback methodID = 90<<16 | 30
)

var methodNames = map[methodID]string{
	connectionStart: "connection.start", connectionStartOk: "connection.start-ok",
	connectionTune: "connection.tune", connectionTuneOk: "connection.tune-ok",
	connectionOpen: "connection.open", connectionOpenOk: "connection.open-ok",
	connectionClose: "connection.close", connectionCloseOk: "connection.close-ok",
	connectionBlocked: "connection.blocked", connectionUnblocked: "connection.unblocked",
	connectionUpdate: "connection.update-secret", connectionUpdateOk: "connection.update-secret-ok",
	channelOpen: "channel.open", channelOpenOk: "channel.open-ok",
	channelFlow: "channel.flow", channelFlowOk: "channel.flow-ok",
	channelClose: "channel.close", channelCloseOk: "channel.close-ok",
	exchangeDeclare: "exchange.declare", exchangeDeclareOk: "exchange.declare-ok",
	exchangeDelete: "exchange.delete", exchangeDeleteOk: "exchange.delete-ok",
	exchangeBind: "exchange.bind", exchangeBindOk: "exchange.bind-ok",
	exchangeUnbind: "exchange.unbind", exchangeUnbindOk: "exchange.unbind-ok",
	queueDeclare: "queue.declare", queueDeclareOk: "queue.declare-ok",
	queueBind: "queue.bind", queueBindOk: "queue.bind-ok",
	queuePurge: "queue.purge", queuePurgeOk: "queue.purge-ok",
	queueDelete: "queue.delete", queueDeleteOk: "queue.delete-ok",
	queueUnbind: "queue.unbind", queueUnbindOk: "queue.unbind-ok",
	basicQos: "basic.qos", basicQosOk: "basic.qos-ok",
	basicConsume: "basic.consume", basicConsumeOk: "basic.consume-ok",
	basicCancel: "basic.cancel", basicCancelOk: "basic.cancel-ok",
	basicPublish: "basic.publish", basicReturn: "basic.return", basicDeliver: "basic.deliver",
	basicGet: "basic.get", basicGetOk: "basic.get-ok", basicGetEmpty: "basic.get-empty",
	basicAck: "basic.ack", basicReject: "basic.reject", basicNack: "basic.nack",
	basicRecoverAsync: "basic.recover-async", basicRecover: "basic.recover", basicRecoverOk: "basic.recover-ok",
	confirmSelect: "confirm.select", confirmSelectOk: "confirm.select-ok",
	txSelect: "tx.select", txCommit: "tx.commit", txRollback: "tx.rollback",
}

// method is one method from a client. Only the fields that its id has are
// set; the bits keep their order of the specification.
type method struct {
	id        methodID
	queue     string // queue, or destination exchange of an exchange binding
	exchange  string // exchange, or source of an exchange binding
	key       string // routing key
	kind      string // exchange type, authentication mechanism, vhost
	tag       string // consumer tag, reply text
	response  string
	delivery  uint64
	size      uint32
	count     uint16 // prefetch, reply code, channel-max
	heartbeat uint16
	bits      byte
	args      Table
}

func (m *method) bit(i int) bool { return m.bits&(1<<i) != 0 }

// Positions of bits that several methods share in meaning but not in place.
const (
	bitPassive    = 0
	bitDurable    = 1
	bitExclusive  = 2 // queue.declare, basic.consume
	bitAutoDelete = 3 // queue.declare; exchange.declare has it at 2
	bitNoWait     = 4 // queue.declare, exchange.declare
)

// decodeMethod reads a method frame's payload. Methods that only a server
// sends, and unknown ones, are errors.
func decodeMethod(p []byte, names *interner) (method, error) {
	if len(p) < 4 {
		return method{}, errShort
	}
	m := method{id: methodID(binary.BigEndian.Uint32(p))}
	d := decoder{b: p[4:], names: names}
	switch m.id {
	case connectionStartOk:
		m.args, m.kind, m.response = d.table(), d.shortstr(), d.longstr()
		d.shortstr() // locale
	case connectionTuneOk:
		m.count, m.size, m.heartbeat = d.short(), d.long(), d.short()
	case connectionOpen:
		m.kind = d.shortstr()
		d.shortstr()
		m.bits = d.octet()
	case connectionClose, channelClose:
		m.count, m.tag = d.short(), d.shortstr()
		d.long() // the class and method that failed
	case connectionUpdate:
		m.response = d.longstr()
		d.shortstr()
	case channelOpen:
		d.shortstr()
	case channelFlow, channelFlowOk, confirmSelect, basicRecover, basicRecoverAsync:
		m.bits = d.octet()
	case connectionCloseOk, channelCloseOk, txSelect, txCommit, txRollback, basicCancelOk:
	case exchangeDeclare:
		d.short()
		m.exchange, m.kind, m.bits, m.args = d.shortstr(), d.shortstr(), d.octet(), d.table()
	case exchangeDelete:
		d.short()
		m.exchange, m.bits = d.shortstr(), d.octet()
	case exchangeBind, exchangeUnbind:
		d.short()
		m.queue, m.exchange, m.key, m.bits, m.args = d.shortstr(), d.shortstr(), d.shortstr(), d.octet(), d.table()
	case queueDeclare:
		d.short()
		m.queue, m.bits, m.args = d.shortstr(), d.octet(), d.table()
	case queueBind:
		d.short()
		m.queue, m.exchange, m.key, m.bits, m.args = d.shortstr(), d.shortstr(), d.shortstr(), d.octet(), d.table()
	case queueUnbind:
		d.short()
		m.queue, m.exchange, m.key, m.args = d.shortstr(), d.shortstr(), d.shortstr(), d.table()
	case queuePurge, queueDelete, basicGet:
		d.short()
		m.queue, m.bits = d.shortstr(), d.octet()
	case basicQos:
		m.size, m.count, m.bits = d.long(), d.short(), d.octet()
	case basicConsume:
		d.short()
		m.queue, m.tag, m.bits, m.args = d.shortstr(), d.shortstr(), d.octet(), d.table()
	case basicCancel:
		m.tag, m.bits = d.shortstr(), d.octet()
	case basicPublish:
		d.short()
		m.exchange, m.key, m.bits = d.shortstr(), d.shortstr(), d.octet()
	case basicAck, basicReject, basicNack:
		m.delivery, m.bits = d.longlong(), d.octet()
	default:
		return m, &replyError{code: 503, text: fmt.Sprintf("%s is not a method that a client sends", m.id), method: m.id, connection: true}
	}
	if d.err != nil {
		return m, &replyError{code: 501, text: fmt.Sprintf("%s: %v", m.id, d.err), method: m.id, connection: true}
	}
	return m, nil
}
