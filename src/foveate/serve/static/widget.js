// src/widget.ts
var e = [
	"site",
	"head",
	"cursor"
], t = {
	uint8: Uint8Array,
	uint16: Uint16Array,
	uint32: Uint32Array,
	float32: Float32Array
};
function n({ model: t, el: n }) {
	let i = `${Math.random().toString(36).slice(2)}/`, a = document.createElement("iframe");
	a.setAttribute("sandbox", "allow-scripts"), a.title = "What the model attended to", a.style.cssText = `display:block;width:100%;height:${Number(t.get("height"))}px;border:0`, a.srcdoc = String(t.get("page"));
	let o = null, s = () => ({
		site: Number(t.get("site") ?? 0),
		head: Number(t.get("head") ?? 0),
		cursor: t.get("cursor") ?? null
	}), c = !1, l = () => void (c || o?.postMessage({ look: s() })), u = (n) => {
		c = !0;
		for (let r of e) t.set(r, n[r]);
		c = !1, t.save_changes();
	};
	a.addEventListener("load", () => {
		o?.close();
		let e = new MessageChannel();
		o = e.port1, o.onmessage = ({ data: e }) => {
			"looking" in e ? u(e.looking) : "stop" in e ? t.send({ stop: i + e.stop }) : "id" in e && t.send({
				...e,
				id: i + e.id
			});
		}, a.contentWindow.postMessage({ place: s() }, "*", [e.port2]);
	});
	let d = (e, t) => {
		if (!String(e.id).startsWith(i)) return;
		let n = r(e, t);
		o?.postMessage(n);
	};
	t.on("msg:custom", d);
	for (let n of e) t.on(`change:${n}`, l);
	return n.append(a), () => {
		t.off("msg:custom", d);
		for (let n of e) t.off(`change:${n}`, l);
		o?.close(), a.remove();
	};
}
function r(e, n) {
	let r = Number(e.id.split("/")[1]);
	if (e.error !== void 0) return {
		id: r,
		error: e.error,
		aborted: e.aborted ?? !1
	};
	if (!e.array) return {
		id: r,
		value: e.value
	};
	let a = new t[e.array](i(n[0]));
	return e.guess ? {
		id: r,
		estimate: a
	} : {
		id: r,
		value: e.thumbnail ? {
			codes: a,
			...e.thumbnail
		} : a
	};
}
var i = (e) => e instanceof ArrayBuffer ? e : e.buffer.slice(e.byteOffset, e.byteOffset + e.byteLength), a = { render: n };
export { a as default };
