"""What prepares a machine for the course and starts it; each module is one command of ``python -m cudalab``, or serves
one.

``platforms.py``    where cudalab runs at all
``gpu_probe.py``    is there a GPU with a working driver?
``environment.py``  ``setup``: the virtual environment, from the lock file that fits the driver
``kernelspecs.py``  ``kernels``: the entries of JupyterLab's kernel picker
``lab.py``          ``lab``: the course in JupyterLab

All but ``lab.py`` use the standard library only: ``setup`` runs before anything is installed. What stands when all is
installed, ``cudalab/doctor.py`` says.
"""
