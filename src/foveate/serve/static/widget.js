// src/widget.ts
var e = {
	uint16: Uint16Array,
	uint32: Uint32Array,
	float32: Float32Array
};
function t({ model: e, el: t }) {
	let r = `${Math.random().toString(36).slice(2)}/`, i = document.createElement("iframe");
	i.setAttribute("sandbox", "allow-scripts"), i.title = "What the model attended to", i.style.cssText = `display:block;width:100%;height:${Number(e.get("height"))}px;border:0`, i.srcdoc = String(e.get("page"));
	let a = null;
	i.addEventListener("load", () => {
		a?.close();
		let t = new MessageChannel();
		a = t.port1, a.onmessage = ({ data: t }) => {
			"stop" in t ? e.send({ stop: r + t.stop }) : "id" in t && e.send({
				...t,
				id: r + t.id
			});
		}, i.contentWindow.postMessage("foveate", "*", [t.port2]);
	});
	let o = (e, t) => {
		if (!String(e.id).startsWith(r)) return;
		let i = n(e, t);
		a?.postMessage(i);
	};
	return e.on("msg:custom", o), t.append(i), () => {
		e.off("msg:custom", o), a?.close(), i.remove();
	};
}
function n(t, n) {
	let i = Number(t.id.split("/")[1]);
	if (t.error !== void 0) return {
		id: i,
		error: t.error,
		aborted: t.aborted ?? !1
	};
	if (!t.array) return {
		id: i,
		value: t.value
	};
	let a = new e[t.array](r(n[0]));
	return t.guess ? {
		id: i,
		estimate: a
	} : {
		id: i,
		value: t.thumbnail ? {
			codes: a,
			...t.thumbnail
		} : a
	};
}
var r = (e) => e instanceof ArrayBuffer ? e : e.buffer.slice(e.byteOffset, e.byteOffset + e.byteLength), i = { render: t };
export { i as default };
