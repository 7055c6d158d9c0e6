"""Models behind an address: `foveate serve`.

Two kinds of processes: the *front* (`front.py`) speaks HTTP and admits requests (`admission.py`); a *model process*
(`model_process.py`) loads runs and answers. The front starts, watches and replaces model processes (`model_pool.py`);
between them pass messages (`message.py`). An interface is a module that translates one client's shapes into questions:
`libre_translate.py`, `open_ai.py`, `own_interface.py`, `open_inference.py`, `hugging_face_shape.py`.
"""
